#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the figures of `mirrorflow explain` add up. Benchmarks test how well it predicts."""

import json
import unittest

from programs import (BAD_INPUT, MIRRORFLOW, ProgramTest, USAGE, VERSIONS, floats, main, node,
                      safetensors)

ROWS_SHAPE = "attr { key: 'shape' value { shape { dim { size: -1 } dim { size: 2 } } } }"
DOUBLED = (
    f"node {{ name: 'x' op: 'Placeholder' {ROWS_SHAPE}"
    " attr { key: 'dtype' value { type: DT_FLOAT } } }\n" + node("twice", "AddV2", "x", "x", T="DT_FLOAT")
    + node("square", "Mul", "twice", "twice", T="DT_FLOAT")
    + node("beside", "Neg", "x", T="DT_FLOAT") + VERSIONS)

SEPARATE = "--without=fuse_elementwise"  # one kernel for each node

TOP = """
x = Placeholder() {dtype=float, shape=<4,8>}
k = Const() {dtype=int32, value=int32<>{2}}
top = TopKV2(x, k) {T=float}
"""

# Reads an uninitialised variable.
UNSET = """
v = VarHandleOp() {dtype=float, shape=<2>}
value = ReadVariableOp(v) {dtype=float}
out = Neg(value) {T=float}
"""


class ExplainTest(ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("doubled.pbtxt", DOUBLED)

    def explain(self, *args):
        """Returns the output, and the objects of the JSON: the step, the ops, the critical path."""
        result = self.run_program(MIRRORFLOW, "explain", *args, "--json=e.json", "--trace=t.json",
                                  new_files=["e.json", "t.json"])
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [json.loads(line) for line in (self.root / "e.json").read_text().splitlines()]
        with open(self.root / "t.json", encoding="utf-8") as file:
            self.trace = json.load(file)["traceEvents"]
        for file in "e.json", "t.json":
            (self.root / file).unlink()
        return (result.stdout, lines[0], [l for l in lines[1:] if "op" in l],
                [l for l in lines[1:] if "node" in l])

    def check_close(self, terms, total):
        # Figures are written with seven digits.
        self.assertLess(abs(terms - total), 1e-6 * total)

    def check_sums(self, step, ops, path):
        self.assertAlmostEqual(sum(op["share"] for op in ops), 100, places=5)
        self.check_close(sum(op["predicted_ms"] for op in ops), step["predicted_ms"])
        self.assertAlmostEqual(sum(node["share"] for node in path), 100, places=5)
        self.check_close(sum(node["predicted_ms"] for node in path), step["critical_path_ms"])
        self.assertLessEqual(step["critical_path_ms"], step["predicted_ms"])
        self.assertLessEqual(step["exposed_ms"], step["predicted_ms"])
        self.assertLessEqual(step["limit_ms"], step["predicted_ms"])
        self.assertAlmostEqual(step["limit_ms"] * step["fma_gflops"] * 1e6, step["flops"],
                               delta=step["flops"] * 1e-4)
        self.check_close(sum(op["measured_ms"] for op in ops), step["undisturbed_ms"])
        self.assertGreater(step["min_ms"], 0)
        self.assertLessEqual(step["min_ms"], step["median_ms"])

    def test_graph_file_is_explained_for_rows_of_one_replica(self):
        for replicas in 1, 2:
            out, step, ops, path = self.explain("doubled.pbtxt", f"--replicas={replicas}",
                                                "--batch_size=4", SEPARATE)
            self.check_sums(step, ops, path)
            self.assertEqual((step["kernels"], step["collectives"], step["flops"]), (3, 0, 0))
            # Rows of two floats on one replica, read five times and written three times.
            self.assertEqual((step["read_bytes"], step["written_bytes"]), (5 * 32, 3 * 32))
            self.assertEqual([n["node"] for n in path][-2:], ["twice", "square"])
            self.assertEqual({op["op"] for op in ops}, {"AddV2", "Mul", "Neg"})
            for line in (f"doubled.pbtxt: {replicas} replica", "\npredicted ", "\nmeasured ",
                         "\ncritical path ", "\ntwice "):
                self.assertIn(line, out)
            spans = [e["pid"] for e in self.trace if e.get("cat") == "step"]
            self.assertEqual(sorted(spans), sorted(3 * list(range(replicas))))

    def test_cores_of_a_host_are_divided(self):
        result = self.run_program(MIRRORFLOW, "explain", "--model=mlp", "--batch_size=3",
                                  "--replicas=2", "--cores=24", "--numa_nodes=2",
                                  "--memory_gbps=0.001", "--cache_mb=0.01", "--json=e.json",
                                  new_files=["e.json"])
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [json.loads(line) for line in (self.root / "e.json").read_text().splitlines()]
        (self.root / "e.json").unlink()
        divisions = [line for line in lines if "threads_per_replica" in line]
        # The batch has six rows, so at most six replicas have work.
        self.assertEqual([(d["replicas"], d["threads_per_replica"]) for d in divisions],
                         [(6, 4), (4, 6), (3, 8), (2, 12), (1, 24)])
        for d in divisions:
            self.assertGreater(d["replica_ms"], 0)
            # The host's memory is so slow, and its cache so small, that memory limits the step.
            self.assertEqual(d["predicted_ms"], d["memory_ms"])
        # Every replica has its own intermediate values.
        self.assertGreater(divisions[0]["bytes_per_node"], divisions[-1]["bytes_per_node"])
        self.assertIn("predicted on 24 cores", result.stdout)
        self.assertIn("fastest", result.stdout)

    def test_host_flags_are_checked(self):
        for flag in ("--cores=-1", "--cores=100000", "--numa_nodes=0", "--numa_nodes=2",
                     "--memory_gbps=-1", "--memory_gbps=inf", "--cache_mb=nan"):
            with self.subTest(flag):
                result = self.run_program(MIRRORFLOW, "explain", "--model=mlp", flag)
                self.assertEqual(result.returncode, USAGE)
                self.assertIn(flag.split("=", maxsplit=1)[0], result.stderr)

    def test_only_requested_nodes_are_explained(self):
        _, step, ops, path = self.explain("doubled.pbtxt", "--fetch=twice", "--batch_size=1")
        self.check_sums(step, ops, path)
        self.assertEqual([n["node"] for n in path], ["twice"])

    def test_model_step_counts_arithmetic_of_layers(self):
        sizes = [784, 512, 512, 10]
        products = [a * b for a, b in zip(sizes, sizes[1:])]
        rows = 2
        for replicas in 1, 2:
            _, step, ops, path = self.explain("--model=mlp", f"--batch_size={rows}",
                                              f"--replicas={replicas}",
                                              "--without=fuse_updates")
            self.check_sums(step, ops, path)
            # Counts each layer, the gradients of its weights and, except for the first layer, of
            # its inputs.
            self.assertEqual(step["flops"], 2 * rows * (3 * sum(products) - products[0]))
            gradients = 4 * (sum(products) + sum(sizes[1:])) if replicas > 1 else 0
            self.assertGreaterEqual(step["collective_bytes"], gradients)
            self.assertEqual(step["exposed_ms"] > 0, replicas > 1)

    def test_update_by_product_counts_as_arithmetic(self):
        _, step, ops, _ = self.explain("--model=mlp", "--batch_size=2", "--replicas=2")
        self.assertEqual(sum(op["flops"] for op in ops), step["flops"])
        [products] = [op for op in ops if op["op"].startswith("reduced") and op["flops"]]
        self.assertEqual(products["op"], "reduced ResourceApplyGradientDescentOfProduct")
        self.assertLess(step["exposed_ms"] + products["predicted_ms"], step["predicted_ms"])

    def test_step_of_workers_waits_for_others_only_over_a_network(self):
        sizes = [784, 512, 512, 10]
        weights = [4 * a * b for a, b in zip(sizes, sizes[1:])]
        biases = [4 * n for n in sizes[1:]]
        for workers, transport in ((2, "tcp"), (4, "tcp"), (2, "ucx"), (2, "shared_memory")):
            with self.subTest(f"{workers} workers, {transport}"):
                result = self.run_program(
                    MIRRORFLOW, "explain", "--model=mlp", "--batch_size=2", "--replicas=1",
                    f"--workers={workers}", f"--transport={transport}", "--without=fuse_updates",
                    "--json=e.json", new_files=["e.json"])
                self.assertEqual(result.returncode, 0, result.stderr)
                step = json.loads((self.root / "e.json").read_text().splitlines()[0])
                (self.root / "e.json").unlink()
                self.assertIn(f"mlp: {workers} workers over {transport}, 1 replica", result.stdout)
                self.assertRegex(result.stdout, r"\nmeasured +not run: .*`bench step --workers`")
                if transport == "shared_memory":
                    self.assertNotIn("sent_bytes", step)
                    continue
                # In addition to the gradients, the workers send the sum of the losses.
                two_rounds = 1 if workers == 2 else 2 * (workers - 1) / workers
                sent = sum(weights) * two_rounds + sum(biases) * (workers - 1)  # at most 16 KB
                self.assertLess(abs(step["sent_bytes"] - sent), 100)
                self.assertGreater(step["network_exposed_ms"], 0)
                self.assertGreater(step["step_with_others_ms"], step["predicted_ms"])

    def test_step_that_cannot_run_is_explained_without_measurement(self):
        self.write("unset.txt", UNSET)
        result = self.run_program(MIRRORFLOW, "explain", "unset.txt", "--replicas=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"\nmeasured +not run: variable 'v' is read")

    def test_variables_and_feeds_come_from_files(self):
        self.write("unset.txt", UNSET)
        self.write("v.safetensors", safetensors(
            {"v": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, bytes(8)))
        out, step, _, path = self.explain("unset.txt", "--variables=v.safetensors", "--replicas=1")
        self.assertNotIn("not run", out)
        self.assertEqual([n["node"] for n in path], ["out"])
        # A fed tensor replaces its node, and the sizes of the feed count.
        self.write("y.npy", floats([3, 2], *range(6)))
        _, step, _, path = self.explain("doubled.pbtxt", "--feed=twice=y.npy", "--fetch=square",
                                        "--replicas=1")
        self.assertEqual([n["node"] for n in path], ["square"])
        self.assertEqual((step["read_bytes"], step["written_bytes"]), (2 * 24, 24))
        # A fed placeholder gets no other feed.
        _, step, _, path = self.explain("doubled.pbtxt", "--feed=x=y.npy", "--replicas=1", SEPARATE)
        self.assertEqual(step["written_bytes"], 3 * 24)

    def test_memory_is_shown_by_class(self):
        self.write("unset.txt", UNSET)
        out, step, _, _ = self.explain("unset.txt", "--memory", "--replicas=1")
        self.assertRegex(out, r"\nvariables +0\.000 ")
        self.assertEqual((step["variable_bytes"], step["optimizer_state_bytes"]), (8, 0))
        self.assertEqual(step["fetch_bytes"], 8)
        out, step, _, _ = self.explain("doubled.pbtxt", "--memory", "--replicas=1",
                                       "--batch_size=4")
        self.assertEqual((step["feed_bytes"], step["fetch_bytes"]), (32, 2 * 32))
        # To find the largest of eight elements, TopKV2 sorts eight 32-bit indices.
        self.write("top.txt", TOP)
        _, step, _, _ = self.explain("top.txt", "--memory", "--replicas=1", "--fetch=top")
        self.assertEqual(step["scratch_bytes"], 8 * 4)
        weights = 4 * (784 * 512 + 512 * 512 + 512 * 10 + 512 + 512 + 10)
        out, step, _, _ = self.explain("--model=mlp", "--memory", "--replicas=1", "--batch_size=2",
                                       "--optimizer=momentum")
        self.assertEqual((step["variable_bytes"], step["optimizer_state_bytes"]),
                         (weights, weights))
        self.assertGreaterEqual(step["activation_bytes"], step["scratch_bytes"])
        parts = ("variable", "optimizer_state", "gradient", "constant", "form", "activation",
                 "feed", "fetch")
        self.assertEqual(sum(step[f"{part}_bytes"] for part in parts), step["total_bytes"])
        self.assertNotIn("total_bytes", self.explain("doubled.pbtxt", "--replicas=1")[1])

    def test_bad_flags_and_graphs_are_reported(self):
        self.write("cut.pbtxt", DOUBLED[:60])
        good = ["doubled.pbtxt"]
        for args, code, where, what in [
            (good + ["--batch_size=0"], "INVALID_ARGUMENT", "--batch_size", "1 to 2147483647, got 0"),
            (good + ["--replicas=0"], "INVALID_ARGUMENT", "--replicas", "got 0"),
            (good + good, "INVALID_ARGUMENT", "explain", "at most one graph file, got 2"),
            (good + ["--fetch=twise"], "INVALID_ARGUMENT", "--fetch twise", "mean twice?"),
            (good + ["--json=no/where"], "NOT_FOUND", "--json=no/where", ""),
            (good + ["--trace=no/where"], "NOT_FOUND", "--trace=no/where", ""),
            (good + ["--workers=0"], "INVALID_ARGUMENT", "--workers", "got 0"),
            (good + ["--workers=2"], "INVALID_ARGUMENT", "--transport", "got 'threads'"),
            (["--model=bert"], "INVALID_ARGUMENT", "--model", "got 'bert'"),
            (["--model=mlp", "--feed=x=x.npy"], "INVALID_ARGUMENT", "--feed", "without"),
            (["--model=mlp", "--fetch=x"], "INVALID_ARGUMENT", "--fetch", "without"),
            (["--model=mlp", "--variables=v"], "INVALID_ARGUMENT", "--variables", "without"),
            (good + ["--feed=x"], "INVALID_ARGUMENT", "--feed x", "NAME=FILE.npy"),
            (good + ["--feed=y=y.npy"], "INVALID_ARGUMENT", "--feed y=y.npy", "'y'"),
            (good + ["--graph=doubled.pbtxt"], "INVALID_ARGUMENT", "--graph", "not a flag"),
        ]:
            self.check_fails(MIRRORFLOW, ["explain", *args], USAGE, code, where, what)
        self.check_fails(MIRRORFLOW, ["explain", *good, "--feed=x=no.npy"], BAD_INPUT,
                         "NOT_FOUND", "--feed x")
        self.check_fails(MIRRORFLOW, ["explain", *good, "--variables=no"], BAD_INPUT, "NOT_FOUND",
                         "doubled.pbtxt")
        self.check_fails(MIRRORFLOW, ["explain", "no.pb"], BAD_INPUT, "NOT_FOUND", "no.pb")
        self.check_fails(MIRRORFLOW, ["explain", "cut.pbtxt"], BAD_INPUT, "INVALID_ARGUMENT",
                         "cut.pbtxt")


if __name__ == "__main__":
    main()
