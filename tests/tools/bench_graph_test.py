#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `mirrorflow bench step --graph` and `bench inference` with peers that are small scripts."""

import json
import sys
import unittest

from programs import (BAD_INPUT, MIRRORFLOW, ProgramTest, USAGE, VERSIONS, floats, main, node,
                      safetensors)

ROWS_SHAPE = "attr { key: 'shape' value { shape { dim { size: -1 } dim { size: 2 } } } }"
X = (f"node {{ name: 'x' op: 'Placeholder' {ROWS_SHAPE}"
     " attr { key: 'dtype' value { type: DT_FLOAT } } }\n")
DOUBLED = X + node("twice", "AddV2", "x", "x", T="DT_FLOAT") + node(
    "square", "Mul", "twice", "twice", T="DT_FLOAT") + VERSIONS
SCALED = (
    X + "node { name: 'v' op: 'VarHandleOp' attr { key: 'dtype' value { type: DT_FLOAT } }"
    " attr { key: 'shape' value { shape { dim { size: 2 } } } }"
    " attr { key: 'shared_name' value { s: 'scale' } } }\n"
    + node("value", "ReadVariableOp", "v", dtype="DT_FLOAT")
    + node("scaled", "Mul", "x", "value", T="DT_FLOAT") + VERSIONS)
WITH_TARGET = DOUBLED + "node { name: 'init' op: 'NoOp' }\n"

# Follows the protocol of tests/benchmark/peers/inference.py, without NumPy. Computes the fetches of
# DOUBLED and SCALED itself. NAME is the peer's name.
PEER = r"""
import os, struct, sys, time, zipfile

def read(file):
    data = file.read()
    [length] = struct.unpack("<H", data[8:10])
    data = data[10 + length:]
    return struct.unpack(f"<{len(data) // 4}f", data)

graph, one, case = sys.argv[1:]
assert one == "1", one
arrays = {}
with zipfile.ZipFile(case) as files:
    for name in files.namelist():
        with files.open(name) as file:
            arrays[name.removesuffix(".npy")] = read(file)
say = lambda *words: print(*words, flush=True)
if os.path.basename(graph) == "fails.pbtxt" and "NAME" == "tensorflow":
    raise SystemExit("no such op")
say("version", "1.5")
say("settings", "xla=off" if "NAME" == "tensorflow" else "plain")
x = arrays.get("feed/x:0")
twice = arrays["feed/twice:0"] if x is None else [2 * value for value in x]
want = {"twice:0": twice, "square:0": [value * value for value in twice]}
if "variable/v" in arrays:
    want = {"scaled:0": [v * arrays["variable/v"][i % 2] for i, v in enumerate(x)]}
for name in arrays:
    kind, tensor = name.split("/", 1)
    if kind != "fetch":
        continue
    assert len(arrays[name]) == len(want[tensor]), name
    apart = max(abs(a - b) for a, b in zip(arrays[name], want[tensor]))
    say("difference", tensor, os.environ.get("DIFFERENCE", apart))
say("call", 1500)
say("ready")
for line in sys.stdin:
    time.sleep(0.01)
    say("ran", 5, float(line.split()[1]))
"""


class BenchGraphTest(ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in "tensorflow", "onnxruntime":
            cls.write(f"peers/inference_{name}_peer.py", PEER.replace("NAME", name))
        cls.write("doubled.pbtxt", DOUBLED)
        cls.write("scaled.pbtxt", SCALED)
        cls.write("init.pbtxt", WITH_TARGET)
        cls.peers = ["--peers=tensorflow,onnxruntime", "--peers_dir=peers",
                     f"--peers_python={sys.executable}", "--rounds=7"]

    def bench(self, *args, peers=None):
        """Returns the output and the objects of the JSON."""
        result = self.run_program(MIRRORFLOW, "bench", *args, *(self.peers if peers is None else peers),
                                  "--json=r.json", new_files=["r.json"])
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [json.loads(line) for line in (self.root / "r.json").read_text().splitlines()]
        (self.root / "r.json").unlink()
        return result.stdout, lines

    def check_bench_fails(self, args, *expected, **options):
        self.check_fails(MIRRORFLOW, ["bench", *args, *self.peers], *expected, **options)

    def test_peers_run_same_step_and_are_compared(self):
        out, lines = self.bench("step", "--graph=doubled.pbtxt", "--batch_size=3")
        sides = {line["implementation"]: line for line in lines if "implementation" in line}
        self.assertEqual(list(sides), ["mirrorflow", "tensorflow", "onnxruntime"])
        for side in sides.values():
            self.assertEqual((side["case"], side["batch_size_per_replica"], side["replicas"]),
                             ("inference/doubled", 3, 1))
        self.assertEqual(sides["tensorflow"]["settings"], "xla=off")
        self.assertEqual(sides["onnxruntime"]["version"], "1.5")
        self.assertEqual(sides["onnxruntime"]["empty_call_ms"], 0.0015)
        ratios = {line["peer"]: line["ratio"] for line in lines if "peer" in line}
        self.assertEqual(list(ratios), ["tensorflow", "onnxruntime"])
        # The peers claim to run five steps in each round.
        self.assertGreater(min(ratios.values()), 10)
        self.assertRegex(out, r"tensorflow +replicas=1 batch_size=3 .* xla=off empty_call=1.5 µs\n")

    def test_feeds_fetches_and_variables_reach_peers(self):
        self.write("y.npy", floats([2, 2], 1, 2, 3, 4))
        self.bench("step", "--graph=doubled.pbtxt", "--feed=twice=y.npy", "--fetch=square")
        self.write("v.safetensors", safetensors(
            {"scale": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
            bytes.fromhex("0000404000000041")))  # 3 and 8
        self.bench("step", "--graph=scaled.pbtxt", "--variables=v.safetensors")

    def test_own_steps_are_measured_without_peers(self):
        _, lines = self.bench("step", "--graph=doubled.pbtxt", "--without=fuse_elementwise",
                              peers=["--rounds=7"])
        self.assertEqual([line["implementation"] for line in lines if "implementation" in line],
                         ["mirrorflow", "mirrorflow without fuse_elementwise"])

    def test_different_results_are_not_timed(self):
        for difference in "0.002", "nan":
            self.check_bench_fails(["step", "--graph=doubled.pbtxt"], BAD_INPUT,
                                   "FAILED_PRECONDITION", "onnxruntime", f"got {difference}",
                                   env={"DIFFERENCE": difference})

    def test_table_of_models_survives_failures(self):
        for name in "good", "fails":
            self.write(f"models/{name}.pbtxt", DOUBLED)
        self.write("models/cut.pbtxt", DOUBLED[:60])
        self.write("models/notes.txt", "not a graph")
        out, lines = self.bench("inference", "--models=models", "--batch_sizes=1,2")
        rows = [[cell.strip() for cell in line.strip("|").split("|")]
                for line in out.splitlines() if line.startswith("|")]
        self.assertEqual(rows[0][:3], ["model", "batch", "ours"])
        self.assertEqual([row[:2] for row in rows[2:]],
                         [[model, batch] for model in ("cut", "fails", "good")
                          for batch in ("1", "2")])
        number = r"[\d.]+"
        for model, _, ours, tensorflow, onnxruntime in rows[2:]:
            if model == "cut":
                self.assertEqual((ours, tensorflow, onnxruntime), ("not measured", "", ""))
                continue
            self.assertRegex(onnxruntime, rf"^{number} \({number} to {number}\)$")
            self.assertEqual(tensorflow == "not measured", model == "fails")
        missing = [(line["case"], line["implementation"], line["batch_size_per_replica"])
                   for line in lines if "not_measured" in line]
        self.assertEqual(missing, [(f"inference/{model}", side, batch)
                                   for model, side in (("cut", "mirrorflow"), ("fails", "tensorflow"))
                                   for batch in (1, 2)])
        self.assertEqual(len([line for line in lines if "ratio" in line]), 2 + 4)

    def test_wrong_flags_and_graphs_are_reported(self):
        self.write("twice.txt", "x = Placeholder() {dtype=float, shape=<2>}\n"
                   "y = Neg(x) {T=float}\n")
        self.write("nothing/notes.txt", "")
        step = ["step", "--graph=doubled.pbtxt"]
        inference = ["inference", "--models=nothing"]
        for args, where, what in [
            (step + ["--model=cnn"], "--model", "graph files"),
            (step + ["--replicas=2"], "--replicas", "one core"),
            (step + ["--workers=2"], "--workers", "one core"),
            (step + ["--svg=t.svg"], "--svg", "graph files"),
            (step + ["--max_memory=-1"], "--max_memory", "got -1"),
            (step + ["--feed=x"], "--feed x", "NAME=FILE.npy"),
            (step + ["--fetch=twise"], "--fetch twise", "mean twice?"),
            (["serving", "--graph=doubled.pbtxt"], "--graph", "bench serving"),
            (["step", "--fetch=twice"], "--fetch", "without"),
            (["step", "--variables=v"], "--variables", "without"),
            (["inference"], "--models", "missing"),
            (inference + ["--batch_sizes=1,many"], "--batch_sizes", "got 'many'"),
            (inference + ["--batch_sizes=0"], "--batch_sizes", "got 0"),
            (inference + ["--fetch=x"], "--fetch", "without"),
            (inference + ["--replicas=2"], "--replicas", "graph files"),
        ]:
            self.check_bench_fails(args, USAGE, "INVALID_ARGUMENT", where, what)
        self.check_fails(MIRRORFLOW, ["bench", *step, "--peers=torch"], USAGE, "INVALID_ARGUMENT",
                         "--peers", "got 'torch'")
        for args, code, where, what in [
            (["step", "--graph=no.pb"], "NOT_FOUND", "no.pb", ""),
            (["step", "--graph=twice.txt"], "INVALID_ARGUMENT", "twice.txt", "GraphDef"),
            (["step", "--graph=init.pbtxt"], "INVALID_ARGUMENT", "init.pbtxt", "--fetch"),
            (["step", "--graph=scaled.pbtxt"], "FAILED_PRECONDITION", "scaled.pbtxt", "'scale'"),
            (["inference", "--models=no"], "NOT_FOUND", "bench inference: --models=no", ""),
            (inference, "NOT_FOUND", "bench inference: --models=nothing", "no graph files"),
        ]:
            self.check_bench_fails(args, BAD_INPUT, code, where, what)


if __name__ == "__main__":
    main()
