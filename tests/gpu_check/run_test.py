#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs run.py with a fake program and fake peers: limits, stages, table, JSON, exit code."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent

# Behaves like gpu_check; FAKE selects a fault.
PROGRAM = r'''#!/usr/bin/env python3
import json, os, sys, time
fake = os.environ.get("FAKE", "")
flags = dict(a.lstrip("-").split("=", 1) for a in sys.argv[1:] if "=" in a)
if "gpus" in sys.argv:
    if fake == "no gpu":
        sys.exit("ERROR NOT_FOUND no driver")
    print(json.dumps({"gpus": [{"name": "Toy", "capability": "9.0", "memory_bytes": 2**30}]}))
elif "--gtest_list_tests" in sys.argv:
    if fake == "capture":
        print("GraphCapture.\n  Works")
elif "figures" in sys.argv:
    if fake == "no figures":
        sys.exit("out of memory")
    for name, value in {"product": 5e14, "update": 4e12, "copy": 4e12, "layer": 4,
                        "capture": 9.0}.items():
        print(json.dumps({"figure": name, "values": [value] * 9}))
elif "bench" in sys.argv:
    rounds = []
    if "case_file" in flags:
        open(flags["case_file"], "w").close()
    if "rounds" in flags:
        rounds.append(1.0)
    else:
        print("ready", flush=True)
        for line in sys.stdin:
            if fake == "bench dies":
                sys.exit("out of memory")
            rounds.append(1.0)
            print("done", flush=True)
    # Compiled kernels stay in a cache.
    compiled = not os.path.exists("compiled") or fake == "no cache"
    open("compiled", "w").close()
    for name in "mirrorflow", "mirrorflow, no strategy":
        print(json.dumps({"name": name, "model": flags["model"], "batch": int(flags["batch_size"]),
                          "precision": flags["precision"], "flops": 3e11, "rounds_ms": rounds, "losses": [2.0, 1.9, 1.8], "median_ms": 1.0,
                          "q1_ms": 1.0, "q3_ms": 1.0, "host_us": 7.0, "first_step_ms": 9.0,
                          "compilations": int(compiled), "peak_memory": 100,
                          "copies_in": 1, "graph_launches": 1, "copies_out": 1,
                          "waits": 2 if fake == "waits twice" else 1}))
else:
    what = flags["gtest_filter"]
    assert os.path.exists("tests/ops/cases/a.txt"), "no cases"
    if fake == "hangs" and "EveryCudaKernel" in what:
        time.sleep(1000)
    test = {"name": "Works", "result": "COMPLETED"}
    if "FashionMnist" in what:
        test["accuracy_gpu"] = "0.9"
    if fake == "fails" and "LogicalGpus" in what:
        test["failures"] = [{"failure": "wrong"}]
    with open(flags["gtest_output"].partition(":")[2], "w") as file:
        json.dump({"testsuites": [{"name": "Suite", "testsuite": [test]}]}, file)
    sys.exit("failures" in test)
'''
SANITIZER = r'''#!/usr/bin/env python3
import os, sys
tool = sys.argv[1:sys.argv.index("9")]
assert tool[1] != "memcheck" or "--report-api-errors" in sys.argv
program = next(i for i, word in enumerate(sys.argv) if word.endswith("gpu_check"))
os.execv(sys.argv[program], sys.argv[program:])
'''
PEER = r'''
import json, os, sys
fake = os.environ.get("FAKE", "")
name = os.path.basename(__file__).split("_")[1]
flags = dict(a.lstrip("-").split("=", 1) for a in sys.argv[1:] if "=" in a)
if fake == "no jax" and name == "jax":
    raise ModuleNotFoundError("No module named 'jax'")
print("noise\nready", flush=True)
rounds = []
for line in sys.stdin:
    rounds.append(6.0)
    print("done", flush=True)
names = {"torch": ["torch eager", "torch compile", "torch max-autotune"], "jax": ["jax jit"]}[name]
loss = 3.0 if fake == "another loss" and name == "jax" else 2.0
batch = int(flags.get("batch") or flags["case"].rpartition("_")[2].partition(".")[0])
for name in names:
    print(json.dumps({"name": name, "model": flags["model"], "batch": batch,
                      "precision": flags["precision"], "rounds_ms": rounds, "losses": [loss, 1.9, 1.8], "median_ms": 6.0,
                      "q1_ms": 6.0, "q3_ms": 6.0, "first_step_ms": 90.0, "peak_memory": 200}))
print(json.dumps({"name": "torch graph", "model": "mlp", "batch": 64, "skipped": "no graph"})
      if fake == "skips" else "more noise")
'''


class RunTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(self.folder.cleanup)
        self.bundle = pathlib.Path(self.folder.name, "bundle")
        (self.bundle / "peers").mkdir(parents=True)
        shutil.copy(SOURCE / "run.py", self.bundle / "run")
        for name in "gates.py", "processes.py":
            shutil.copy(SOURCE / name, self.bundle)
        self.write("bundle/gpu_check", PROGRAM)
        self.write("path/compute-sanitizer", SANITIZER)
        for peer in "torch", "jax":
            self.write(f"bundle/peers/gpu_{peer}_peer.py", PEER)
        self.write("tests/ops/cases/a.txt", "")
        with tarfile.open(self.bundle / "cases.tar.gz", "w:gz") as cases:
            cases.add(pathlib.Path(self.folder.name, "tests"), "tests")

    def write(self, name, text):
        path = pathlib.Path(self.folder.name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_bundle(self, fake="", *flags, expected_code=0):
        """Returns (rows by stage, the JSON, the lines of the table)."""
        environment = dict(os.environ, FAKE=fake, PATH=f"{self.folder.name}/path:{os.environ['PATH']}")
        ended = subprocess.run([sys.executable, self.bundle / "run", *flags], env=environment,
                               capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(ended.returncode, expected_code, ended.stdout + ended.stderr)
        result = json.loads((self.bundle / "gpu_check.json").read_text())
        lines = ended.stdout.splitlines()
        table = lines[next(i for i, line in enumerate(lines) if line.startswith("stage ")):]
        self.assertEqual(len(table), 1 + len(result["stages"]) + len(result["gates"]))
        return {row["stage"]: row for row in result["stages"]}, result, table

    def test_all_stages_are_ok(self):
        rows, result, table = self.run_bundle()
        self.assertEqual({row["result"] for row in rows.values()}, {"ok"})
        self.assertEqual(rows["training"]["what"].split(", ")[-1], "Works accuracy_gpu 0.9")
        self.assertIn("mlp 64 tf32: jax jit", rows)
        self.assertIn("gpt2 8 bf16: torch eager", rows)
        verdicts = {(g["gate"], g["case"]): g["verdict"] for g in result["gates"]}
        self.assertEqual(verdicts["G2", "mlp 64, torch eager / ours"], "met")
        self.assertEqual(verdicts["G1", "mlp 64, host time per step, µs"], "met")
        self.assertEqual(verdicts["G9", "mlp 64, cold first step, compile / ours"], "met")
        # 3e11 operations in 1 ms, at 5e14 per second.
        self.assertEqual(verdicts["G5", "gpt2 8, rate of its products / of products alone"], "met")
        self.assertEqual(verdicts["G4", "transformer 8, torch eager / ours"], "met")
        self.assertEqual(verdicts["G6", "bytes per second, Adam / copy"], "met")
        self.assertEqual(
            verdicts["G7", "kernels of a dense layer, forward and backward"], "missed")
        self.assertEqual(verdicts["G9", "mlp 64, first step, compile cold / ours warm"], "met")
        self.assertEqual(verdicts["G10", "capture of 1,000 kernels, ms"], "met")
        self.assertEqual({g["gate"] for g in result["gates"]}, {f"G{i}" for i in range(1, 12)})
        self.assertNotIn("not measured", verdicts.values())
        self.assertTrue(any(line.startswith("gate G11") for line in table))

    def test_all_stages_are_skipped_without_gpu(self):
        rows, result, _ = self.run_bundle("no gpu", expected_code=1)
        self.assertIn("no driver", rows.pop("GPU")["what"])
        self.assertGreater(len(rows), 8)
        for row in rows.values():
            self.assertEqual((row["result"], row["what"]), ("skipped", "no GPU"))
        self.assertEqual({g["verdict"] for g in result["gates"]}, {"not measured"})

    def test_failing_test_is_named_and_other_stages_run(self):
        rows, _, _ = self.run_bundle("fails", "--only=kernels,strategies,training",
                                     expected_code=1)
        self.assertEqual(rows["strategies"]["result"], "FAILED")
        self.assertIn("Suite.Works", rows["strategies"]["what"])
        self.assertEqual(rows["kernels"]["result"], "ok")
        self.assertEqual(rows["training"]["result"], "ok")

    def test_hanging_stage_leaves_time_for_others(self):
        began = time.monotonic()
        rows, _, _ = self.run_bundle("hangs", "--budget=4", "--only=kernels,training",
                                     expected_code=1)
        self.assertLess(time.monotonic() - began, 12)
        self.assertEqual(rows["kernels"]["result"], "FAILED")
        self.assertIn("did not finish in time", rows["kernels"]["what"])
        self.assertEqual(rows["training"]["result"], "ok")

    def test_missing_programs_are_skipped_with_reason(self):
        (pathlib.Path(self.folder.name, "path/compute-sanitizer")).unlink()
        rows, result, _ = self.run_bundle("no jax", "--only=memcheck,mlp 64",
                                          expected_code=1)
        if rows["memcheck"]["result"] != "FAILED":  # a machine may have the real one
            self.assertIn("no compute-sanitizer", rows["memcheck"]["what"])
        self.assertEqual(rows["mlp 64 tf32: jax"]["result"], "skipped")
        self.assertIn("No module named 'jax'", rows["mlp 64 tf32: jax"]["what"])
        self.assertEqual(rows["mlp 64 tf32: torch eager"]["result"], "ok")
        jax = [g["verdict"] for g in result["gates"] if g["case"] == "mlp 64, jax jit / ours"]
        self.assertEqual(jax, ["not measured"])

    def test_step_that_waits_twice_fails(self):
        rows, _, _ = self.run_bundle("waits twice", "--only=mlp 64", expected_code=1)
        row = rows["mlp 64 tf32: mirrorflow"]
        self.assertEqual(row["result"], "FAILED")
        self.assertIn("1 copies in, 1 graph launches, 1 copies out, 2 waits", row["what"])

    def test_unprepared_variant_is_skipped(self):
        rows, _, _ = self.run_bundle("skips", "--only=mlp 64", expected_code=1)
        self.assertEqual(rows["mlp 64 tf32: torch graph"]["what"], "no graph")

    def test_missing_figure_is_not_measured(self):
        rows, result, _ = self.run_bundle("no figures", "--only=figures,gpt2 8",
                                          expected_code=1)
        self.assertIn("out of memory", rows["figures"]["what"])
        verdicts = {(g["gate"], g["case"]): g["verdict"] for g in result["gates"]}
        self.assertEqual(verdicts["G5", "gpt2 8, torch eager / ours"], "met")
        self.assertEqual(verdicts["G5", "gpt2 8, rate of its products / of products alone"],
                         "not measured")
        for gate in "G6", "G7", "G10":
            self.assertEqual({g["verdict"] for g in result["gates"] if g["gate"] == gate},
                             {"not measured"})

    def test_warm_start_fills_empty_cache(self):
        rows, _, _ = self.run_bundle("", "--only=warm start")
        self.assertEqual(rows["warm start"]["what"], "first step 9 ms")
        rows, result, _ = self.run_bundle("no cache", "--only=mlp 64,warm start", expected_code=1)
        self.assertIn("expected all in the cache", rows["warm start"]["what"])
        warm = [g["verdict"] for g in result["gates"] if g["case"].endswith("ours warm")]
        self.assertEqual(warm, ["not measured"])

    def test_different_losses_fail(self):
        rows, _, _ = self.run_bundle("another loss", "--only=mlp 64", expected_code=1)
        self.assertIn("losses differ", rows["mlp 64 tf32: jax jit"]["what"])

    def test_losses_are_not_compared_if_weights_differ(self):
        self.run_bundle("another loss", "--only=gpt2 8")

    def test_crashed_benchmark_reports_reason(self):
        rows, _, _ = self.run_bundle("bench dies", "--only=cnn 64", expected_code=1)
        self.assertIn("out of memory", rows["cnn 64 tf32: mirrorflow"]["what"])

    def test_graph_capture_stage_runs_if_program_has_tests(self):
        rows, _, _ = self.run_bundle("capture", "--only=graph capture")
        self.assertEqual(rows["graph capture"]["result"], "ok")

    def test_results_of_other_stages_stay(self):
        self.run_bundle("", "--only=mlp 64,figures")
        rows, result, _ = self.run_bundle("no figures", "--only=figures,checks", expected_code=1)
        self.assertIn("mlp 64 tf32: torch eager", rows)
        self.assertEqual(rows["figures"]["result"], "FAILED")
        verdicts = {(g["gate"], g["case"]): g["verdict"] for g in result["gates"]}
        self.assertEqual(verdicts["G2", "mlp 64, torch eager / ours"], "met")
        # Another program: nothing stays.
        with open(self.bundle / "gpu_check", "a") as program:
            program.write("# changed\n")
        rows, _, _ = self.run_bundle("", "--only=training")
        self.assertEqual(set(rows), {"GPU", "training"})

    def test_dry_run_lists_stages_without_gpu(self):
        ended = subprocess.run([sys.executable, self.bundle / "run", "--dry-run"],
                               env=dict(os.environ, FAKE="no gpu"), capture_output=True, text=True,
                               check=True)
        totals = {line.split()[1]: int(line.split()[2]) for line in ended.stdout.splitlines()
                  if line.startswith("all ")}
        self.assertEqual(set(totals), {"checks", "benchmarks"})
        self.assertLess(max(totals.values()), 600)
        self.assertRegex(ended.stdout, r"memcheck +\d+ +checks +a GPU, compute-sanitizer")
        self.assertFalse((self.bundle / "gpu_check.json").exists())

    def test_unknown_stage_is_rejected(self):
        ended = subprocess.run([sys.executable, self.bundle / "run", "--only=nothing"],
                               capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 2)
        self.assertIn("expected any of kernels", ended.stderr)


if __name__ == "__main__":
    unittest.main()
