#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs graphs of other programs with `mirrorflow run`, which feeds and fetches through files."""

import json
import re
import struct
import unittest

from programs import (BAD_INPUT, FASHION_MNIST, MIRRORFLOW, ProgramTest, USAGE, VERSIONS, floats,
                      main, node, npy)


ROWS_SHAPE = "attr { key: 'shape' value { shape { dim { size: -1 } dim { size: 2 } } } }"
DOUBLED = (
    f"node {{ name: 'x' op: 'Placeholder' {ROWS_SHAPE}"
    " attr { key: 'dtype' value { type: DT_FLOAT } } }\n" + node("twice", "AddV2", "x", "x", T="DT_FLOAT")
    + node("square", "Mul", "twice", "twice", T="DT_FLOAT") + VERSIONS)


DOT = r"""digraph {
  node [shape=box]
  "x" [label="Placeholder\nx\nfloat[?,2]"]
  "twice" [label="AddV2\ntwice\nfloat[?,2]"]
  "x" -> "twice"
  "x" -> "twice"
  "square" [label="Mul\nsquare\nfloat[?,2]"]
  "twice" -> "square"
  "twice" -> "square"
}
"""


class RunTest(ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("doubled.pbtxt", DOUBLED)
        cls.write("x.npy", floats([3, 2], 1, 2, 3, 4, 5, 6))

    def run_graph(self, *args, **options):
        result = self.run_program(MIRRORFLOW, "run", *args, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def check_run_fails(self, args, *expected):
        self.check_fails(MIRRORFLOW, ["run", *args], *expected)

    def test_fetch_is_printed_or_written(self):
        out = self.run_graph("--graph=doubled.pbtxt", "--feed", "x=x.npy", "--fetch=twice",
                             "--fetch", "square:0=square.npy", new_files=["square.npy"])
        self.assertEqual(out, "twice = float<3,2>{2.0, 4.0, 6.0, 8.0, 10.0, 12.0}\n")
        self.assertEqual((self.root / "square.npy").read_bytes()[128:],
                         struct.pack("<6f", 4, 16, 36, 64, 100, 144))

    def test_any_tensor_can_be_fed_and_unneeded_nodes_do_not_run(self):
        out = self.run_graph("--graph=doubled.pbtxt", "--feed=twice=x.npy", "--fetch=square")
        self.assertEqual(out, "square = float<3,2>{1.0, 4.0, 9.0, 16.0, 25.0, 36.0}\n")

    def test_replicas_share_global_feeds(self):
        want = self.run_graph("--graph=doubled.pbtxt", "--feed=x=x.npy", "--fetch=square")
        for replicas in 1, 2, 4:
            self.assertEqual(want, self.run_graph("--graph=doubled.pbtxt", "--feed=x=x.npy",
                                                  "--fetch=square", f"--replicas={replicas}"))

    def test_run_without_fetches_lists_feeds_and_fetches(self):
        out = self.run_graph("--graph=doubled.pbtxt")
        self.assertRegex(out, r"feed +x +float\[\?,2\]\nfetch +square +float\[\?,2\]\n")

    def test_saved_model_reproduces_training_accuracy(self):
        grid = [20, 28, 28, 1]
        for model, shape in ("mlp", [20, 784]), ("cnn", grid), ("resnet", grid):
            files = [f"{model}.pb", f"{model}.safetensors"]
            trained = self.run_program(
                FASHION_MNIST, "--data_dir=good", f"--model={model}", "--replicas=2", "--steps=3",
                "--global_batch_size=10", f"--save_graph={files[0]}",
                f"--save_variables={files[1]}", new_files=files)
            self.assertEqual(trained.returncode, 0, trained.stderr)
            images = (self.root / "good/t10k-images-idx3-ubyte").read_bytes()[16:]
            labels = (self.root / "good/t10k-labels-idx1-ubyte").read_bytes()[8:]
            # A quotient of floats, as in the dataset.
            self.write("images.npy", floats(shape, *(i / 255 for i in images)))
            self.write("labels.npy", npy("<i4", [20], struct.pack("<20i", *labels)))
            run = ["--graph", files[0], "--variables", files[1],
                   "--feed=images=images.npy,labels=labels.npy"]
            accuracy = self.run_graph(*run, "--fetch=accuracy/Mean")
            self.assertEqual(float(trained.stdout.split()[0].split("=")[1]),
                             round(float(accuracy.split("{")[1].split("}")[0]), 4))
            # The bits are the same from run to run. With three replicas they can differ, because
            # the products have different sizes.
            logits = []
            for replicas in [], [], ["--replicas=1"], ["--replicas=3"]:
                self.run_graph(*run, "--fetch=logits=logits.npy", *replicas,
                               new_files=["logits.npy"])
                logits.append((self.root / "logits.npy").read_bytes())
                (self.root / "logits.npy").unlink()
            self.assertEqual(logits[0], logits[1])
            self.assertEqual(logits[0], logits[2])
            for one, three in zip(*(struct.unpack("<200f", b[128:]) for b in logits[2:])):
                self.assertAlmostEqual(one, three, delta=1e-5)

    def test_steps_train_and_variables_are_saved(self):
        files = ["mlp2.pb", "start.safetensors"]
        self.run_program(FASHION_MNIST, "--data_dir=good", "--model=mlp", "--steps=1",
                         "--replicas=1", "--global_batch_size=10", f"--save_graph={files[0]}",
                         f"--save_variables={files[1]}", new_files=files)
        images = (self.root / "good/train-images-idx3-ubyte").read_bytes()[16:16 + 7840]
        labels = (self.root / "good/train-labels-idx1-ubyte").read_bytes()[8:18]
        self.write("batch.npy", floats([10, 784], *(i / 255 for i in images)))
        self.write("classes.npy", npy("<i4", [10], struct.pack("<10i", *labels)))
        losses = []
        for steps in 1, 40:
            out = self.run_graph(
                "--graph=mlp2.pb", "--variables=start.safetensors", "--feed=images=batch.npy",
                "--feed=labels=classes.npy", "--target=train/NoOp", "--fetch=loss/Mean",
                f"--steps={steps}", "--replicas=2", "--save_variables=end.safetensors",
                "--trace=trace.json", new_files=["end.safetensors", "trace.json"][:2 * (steps == 1)])
            losses.append(float(out.split("{")[1].split("}")[0]))
        self.assertLess(losses[1], losses[0])
        self.assertEqual(len((self.root / "end.safetensors").read_bytes()),
                         len((self.root / "start.safetensors").read_bytes()))

    def test_inspect_converts_between_formats(self):
        forms = ["graph.pb", "graph.txt", "again.pbtxt", "again.pb"]
        source = "doubled.pbtxt"
        for form in forms:
            result = self.run_program(MIRRORFLOW, "inspect", source, f"--output={form}",
                                      new_files=[form])
            self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
            source = form
        self.assertEqual((self.root / "graph.pb").read_bytes(),
                         (self.root / "again.pb").read_bytes())
        self.run_program(MIRRORFLOW, "inspect", "graph.pb", "--output=graph.dot",
                         new_files=["graph.dot"])
        self.assertEqual((self.root / "graph.dot").read_text(), DOT)
        self.check_fails(MIRRORFLOW, ["inspect", "graph.pb", "--output=no/where.pb"], USAGE,
                         "NOT_FOUND", "--output=no/where.pb")

    def test_replicated_graph_of_inspect_runs(self):
        want = self.run_graph("--graph=doubled.pbtxt", "--feed=x=x.npy", "--fetch=square")
        for form in "three.pbtxt", "three.txt", "three.pb":
            result = self.run_program(MIRRORFLOW, "inspect", "doubled.pbtxt", f"--output={form}",
                                      "--replicas=2", "--global_batch_size=3", new_files=[form])
            self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
            self.assertEqual(want, self.run_graph("--graph", form, "--feed=x=x.npy",
                                                  "--fetch=square"))
        text = (self.root / "three.pbtxt").read_text()
        for name, count in ("replica_0/twice", 1), ("replica_1/twice", 1), ("square", 1), ("twice", 0):
            self.assertEqual(text.count(f'  name: "{name}"\n'), count, name)
        self.check_fails(MIRRORFLOW, ["inspect", "doubled.pbtxt", "--output=x.pb", "--replicas=2",
                                      "--fetch=twise"], USAGE, "INVALID_ARGUMENT",
                         "--fetch twise", "did you mean twice?")

    def test_replicated_training_step_matches_original(self):
        files = ["mlp3.pb", "start3.safetensors"]
        self.run_program(FASHION_MNIST, "--data_dir=good", "--model=mlp", "--steps=1",
                         "--replicas=1", "--global_batch_size=10", f"--save_graph={files[0]}",
                         f"--save_variables={files[1]}", new_files=files)
        images = (self.root / "good/train-images-idx3-ubyte").read_bytes()[16:16 + 5 * 784]
        labels = (self.root / "good/train-labels-idx1-ubyte").read_bytes()[8:13]
        self.write("batch3.npy", floats([5, 784], *(i / 255 for i in images)))
        self.write("classes3.npy", npy("<i4", [5], struct.pack("<5i", *labels)))
        step = ["--target=train/NoOp", "--fetch=loss/Mean"]
        result = self.run_program(MIRRORFLOW, "inspect", "mlp3.pb", *step, "--replicas=2",
                                  "--global_batch_size=5", "--output=two.pb", new_files=["two.pb"])
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        losses = []
        for graph in ["mlp3.pb", "--replicas=2"], ["two.pb"]:
            out = self.run_graph("--graph", *graph, "--variables=start3.safetensors", *step,
                                 "--feed=images=batch3.npy,labels=classes3.npy", "--steps=20")
            losses.append(float(out.split("{")[1].split("}")[0]))
        self.assertAlmostEqual(losses[0], losses[1], delta=1e-5)

    def test_inspect_prints_summary_and_with_all_the_rest(self):
        files = ["cnn5.pb"]
        self.run_program(FASHION_MNIST, "--data_dir=good", "--model=cnn", "--steps=1",
                         "--replicas=1", "--global_batch_size=10", f"--save_graph={files[0]}",
                         new_files=files)
        summary = self.run_program(MIRRORFLOW, "inspect", "cnn5.pb").stdout
        self.assertLess(len(summary.splitlines()), 40, summary)
        self.assertIn("inputs: images float[?,28,28,1], labels int32[?]\n", summary)
        for layer, op, output, parameters in [
            ("conv2d", "Relu", "float[?,26,26,32]", 320),
            ("conv2d_1", "Relu", "float[?,11,11,64]", 18496),
            ("dense", "Relu", "float[?,128]", 204928),
            ("dense_1", "BiasAdd", "float[?,10]", 1290),
        ]:
            self.assertRegex(summary, rf"(?m)^{layer} +{op} +{re.escape(output)} +{parameters}$")
        self.assertIn("parameters: 225034 trainable, 225035 in optimizer state", summary)
        self.assertRegex(summary, r"(?m)^memory per replica: [\d.]+ MB = ")
        self.assertRegex(summary, r"(?m)^collectives: \d+ per step, [\d.]+ MB$")
        everything = self.run_program(MIRRORFLOW, "inspect", "cnn5.pb", "--all").stdout
        self.assertGreater(len(everything.splitlines()), 200)
        for part in summary.splitlines()[1], "\nshardings:\n", "\nmemory of replica 0:\n":
            self.assertIn(part, everything)

    def test_graph_without_versions_runs_in_silence(self):
        self.write("old.pbtxt", DOUBLED.replace(VERSIONS, ""))
        result = self.run_program(MIRRORFLOW, "run", "--graph=old.pbtxt", "--feed=x=x.npy",
                                  "--fetch=twice")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")

    def test_variables_that_the_step_does_not_read_are_not_required(self):
        # A SavedModel contains unread copies of its variables, and variables of other steps.
        self.write("copies.txt", "".join(
            f'{name} = VarHandleOp() {{dtype=float, shape=<2>, shared_name="{name}"}}\n'
            f"{name}_read = ReadVariableOp({name}) {{dtype=float}}\n"
            for name in ("dense/kernel", "dense/kernel_1", "adam/m"))
            + "y = Neg(dense/kernel_read) {T=float}\n")

        def variables(**tensors):
            header, data = {}, b""
            for name, (dtype, contents) in tensors.items():
                size = {"F32": 4, "F8_E4M3": 1}[dtype]
                header[name] = {"dtype": dtype, "shape": [len(contents) // size],
                                "data_offsets": [len(data), len(data) + len(contents)]}
                data += contents
            text = json.dumps(header).encode()
            return struct.pack("<Q", len(text)) + text + data

        kernel = ("F32", struct.pack("<2f", 1, 2))
        for tensors in [
            {"dense/kernel": kernel},
            {"dense/kernel": kernel, "scale": ("F8_E4M3", b"a")},
            {"dense/kernel": kernel, "adam/m": ("F8_E4M3", b"ab"), "other": kernel},
        ]:
            self.write("copies.safetensors", variables(**tensors))
            for flags in [], ["--partial_variables"]:
                out = self.run_graph("--graph=copies.txt", "--variables=copies.safetensors",
                                     "--fetch=y", *flags)
                self.assertEqual(out, "y = float<2>{-1.0, -2.0}\n")
        run = ["--graph=copies.txt", "--variables=copies.safetensors"]
        self.check_run_fails(run + ["--fetch=dense/kernel_1_read"], BAD_INPUT, "INVALID_ARGUMENT",
                             "copies.safetensors", "missing 1 (dense/kernel_1)")
        self.check_run_fails(run + ["--fetch=adam/m_read"], BAD_INPUT, "UNIMPLEMENTED",
                             "copies.safetensors", "F8_E4M3")

    def test_files_of_other_kinds_are_named(self):
        self.write("saved/saved_model.pb", b"x")
        self.write("model.h5", b"\x89HDF\r\n\x1a\n" + bytes(100))
        self.write("pointer.pb", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
        self.write("model.onnx", b"\x08\x08\x12\x07pytorch" + bytes(100))
        good = ["--graph=doubled.pbtxt", "--fetch=twice", "--feed=x=x.npy"]
        for args, where, what in [
            (["--graph=saved"], "saved", "a SavedModel folder"),
            (["--graph=model.h5"], "model.h5", "an HDF5 file"),
            (["--graph=model.onnx"], "model.onnx", "onnx2tf"),
            (["--graph=pointer.pb"], "pointer.pb", "git lfs pull"),
            (good + ["--variables=saved"], "saved", "docs/tensorflow_graphs.md"),
            (good + ["--variables=doubled.pbtxt"], "doubled.pbtxt", "--graph"),
        ]:
            self.check_run_fails(args, BAD_INPUT, "INVALID_ARGUMENT", where, what)

    def test_partial_variables_need_their_flag(self):
        files = ["mlp6.pb", "mlp6.safetensors", "cnn6.pb", "cnn6.safetensors"]
        for model, graph, variables in ("mlp", *files[:2]), ("cnn", *files[2:]):
            self.run_program(FASHION_MNIST, "--data_dir=good", f"--model={model}", "--steps=1",
                             "--replicas=1", "--global_batch_size=10", f"--save_graph={graph}",
                             f"--save_variables={variables}", new_files=[graph, variables])
        images = (self.root / "good/train-images-idx3-ubyte").read_bytes()[16:16 + 784]
        self.write("image6.npy", floats([1, 784], *(i / 255 for i in images)))
        run = ["--graph=mlp6.pb", "--variables=cnn6.safetensors", "--feed=images=image6.npy",
               "--fetch=logits"]
        self.check_run_fails(run, BAD_INPUT, "INVALID_ARGUMENT", "cnn6.safetensors", "expected ")

    def test_inspect_prints_graph_before_and_after_pass(self):
        result = self.run_program(MIRRORFLOW, "inspect", "doubled.pbtxt", "--pass=CommonSubexpressions")
        self.assertEqual(result.returncode, 0, result.stderr)
        before, after = result.stdout.split("\nafter common_subexpressions:\n")
        self.assertTrue(before.startswith("before common_subexpressions:\nx = Placeholder()"), before)
        self.assertIn("square = Mul(twice, twice)", after)
        # The second half prints what is known about the plan.
        result = self.run_program(MIRRORFLOW, "inspect", "doubled.pbtxt", "--pass=ScheduleNodes")
        self.assertEqual(result.returncode, 0, result.stderr)
        before, after = result.stdout.split("\nafter schedule_nodes:\n")
        self.assertNotIn("\norder:\n", before)
        self.assertIn("\norder:\n  x\n", after)
        result = self.run_program(MIRRORFLOW, "inspect", "doubled.pbtxt", "--pass=plan_memory")
        self.assertIn("instructions:\n0 compute run ", result.stdout)
        self.assertIn("bytes at 0 of region 2", result.stdout)
        self.check_fails(MIRRORFLOW, ["inspect", "doubled.pbtxt", "--pass=none"], USAGE,
                         "INVALID_ARGUMENT", "--pass", "expected one of assign_storage, bucket_collectives,")

    def test_bad_flags_are_reported(self):
        self.write("unknown.pbtxt", node("a", "MatMull") + VERSIONS)
        good = ["--graph=doubled.pbtxt"]
        for args, where, what in [
            ([], "--graph", "missing"),
            (good + ["word"], "run", "unexpected argument 'word'"),
            (good + ["--feed=x", "--fetch=twice"], "--feed x", "expected NAME=FILE.npy"),
            (good + ["--feed=y=x.npy", "--fetch=twice"], "--feed y=x.npy", "no node 'y'"),
            (good + ["--fetch=twise"], "--fetch twise", "did you mean twice?"),
            (good + ["--fetch=twice:1"], "--fetch twice:1", "no output 1; expected an index below 1"),
            (good + ["--fetch=twice:x"], "--fetch twice:x", "expected NODE or NODE:OUTPUT"),
            (good + ["--target=squares"], "--target squares", "did you mean square?"),
            (good + ["--feed=w=x.npy", "--fetch=twice"], "--feed w=x.npy", "no node 'w'"),
            (["--graph=unknown.pbtxt", "--fetch=a"], "--fetch a",
             "MatMull(a): unknown op; did you mean MatMul"),
            (good + ["--fetch=twice", "--steps=0"], "--steps", "at least 1, got 0"),
            (good + ["--fetch=twice", "--device=TPU"], "--device", "device 'TPU': expected CPU:0"),
            (good + ["--fetch=twice", "--replicas=0"], "--replicas", "got 0"),
        ]:
            self.check_run_fails(args, USAGE, "INVALID_ARGUMENT", where, what)
        self.check_run_fails(good + ["--fetch=twice=no/where.npy"], USAGE, "NOT_FOUND",
                             "--fetch=no/where.npy")

    def test_bad_files_are_reported(self):
        self.write("double.npy", npy("<f8", [1, 2], bytes(16)))
        self.write("three.npy", floats([1, 3], 1, 2, 3))
        self.write("cut.npy", floats([1, 2], 1))
        fetch = ["--graph=doubled.pbtxt", "--fetch=twice"]
        for args, code, where, what in [
            (["--graph=no.pb"], "NOT_FOUND", "no.pb", ""),
            (fetch, "INVALID_ARGUMENT", "doubled.pbtxt", "not fed"),
            (fetch + ["--feed=x=no.npy"], "NOT_FOUND", "--feed x", "no.npy"),
            (fetch + ["--feed=x=double.npy"], "INVALID_ARGUMENT", "--feed x=double.npy",
             "expected dtype float, got double"),
            (fetch + ["--feed=x=three.npy"], "INVALID_ARGUMENT", "doubled.pbtxt",
             "expected shape [?,2], got [1,3]"),
            (fetch + ["--feed=x=cut.npy"], "DATA_LOSS", "--feed x", "expected 8 bytes, got 4"),
            (fetch + ["--feed=x=x.npy", "--variables=no.safetensors"], "NOT_FOUND",
             "no.safetensors", ""),
        ]:
            self.check_run_fails(args, BAD_INPUT, code, where, what)


if __name__ == "__main__":
    main()
