#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input ends our programs with an exit code and a line that says where the error is.

The line is the last on standard error: `ERROR <CODE> <where>: <what>; expected <x>, got <y>`. No
input may crash or hang a program, or make it leave files behind that were not requested.
"""

import gzip
import os
import random
import re
import resource
import struct
import subprocess
import unittest

from programs import (BAD_INPUT, FASHION_MNIST, MIRRORFLOW, NUMERIC, ProgramTest, RESOURCES, ROWS,
                      SECONDS, USAGE, VERSIONS, idx, images, labels, main, node)


class ProgramsTest(ProgramTest):

    def test_good_input_succeeds_and_writes_requested_files(self):
        flags = ["loss_log=losses", "save_variables=v.safetensors", "save_graph=g.pb", "trace=t"]
        result = self.run_program(
            FASHION_MNIST, "--data_dir=good", "--model=mlp", "--replicas=2", "--steps=3",
            "--global_batch_size=10", *(f"--{f}" for f in flags),
            new_files=[f.split("=")[1] for f in flags])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"^test_accuracy=\S+ train_loss=\S+ examples_per_s=\S+ ")
        self.assertEqual(len((self.root / "losses").read_text().splitlines()), 3)
        self.assertEqual(self.run_program(MIRRORFLOW, "inspect", "g.pb").returncode, 0)

        # A truncated file must not pass for a smaller graph.
        graph = (self.root / "g.pb").read_bytes()
        self.check_inspect_fails("cut.pb", graph[:len(graph) // 2], "cut off")

    def test_training_in_half_scales_the_loss(self):
        for dtype, scales in ("bfloat16", False), ("half", True):
            result = self.run_program(
                FASHION_MNIST, "--data_dir=good", "--model=mlp", "--replicas=1", "--steps=2",
                f"--compute_dtype={dtype}", f"--save_variables={dtype}", new_files=[dtype])
            self.assertEqual(result.returncode, 0, result.stderr)
            saved = (self.root / dtype).read_bytes()
            self.assertEqual(b"loss_scale/dynamic_scale" in saved, scales, dtype)

    def test_learning_rate_of_zero_leaves_the_variables(self):
        saved = []
        for steps in 1, 3:
            file = f"after_{steps}"
            result = self.run_program(
                FASHION_MNIST, "--data_dir=good", "--model=mlp", "--replicas=1", "--optimizer=sgd",
                "--learning_rate=0", f"--steps={steps}", f"--save_variables={file}",
                "--schedule=constant", "--global_batch_size=10", new_files=[file])
            self.assertEqual(result.returncode, 0, result.stderr)
            contents = (self.root / file).read_bytes()
            header = 8 + struct.unpack("<Q", contents[:8])[0]  # it contains the step number
            saved.append(contents[header:])
        self.assertEqual(*saved)

    def test_default_is_one_replica_per_core(self):
        result = self.run_program(FASHION_MNIST, "--data_dir=good", "--model=mlp", "--steps=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        replicas = int(re.search(r" replicas=(\d+) ", result.stderr).group(1))
        self.assertTrue(1 <= replicas <= min(len(os.sched_getaffinity(0)), 8), replicas)

    def test_bad_training_flags_are_reported(self):
        for arg, where, what in [
            ("--bogus", "--bogus", "unknown flag"),
            ("--replica=2", "--replica", "did you mean --replicas?"),
            ("extra", "'extra'", "expected flags only"),
            ("--steps", "--steps", "no value; expected a 64-bit integer"),
            ("--steps=many", "--steps", "expected a 64-bit integer, got 'many'"),
            ("--steps=99999999999999999999", "--steps", "got '99999999999999999999'"),
            ("--steps=-1", "--steps", "expected at least 0, got -1"),
            ("--epochs=9999999999", "--epochs", "expected 1 to 2147483647, got 9999999999"),
            ("--epochs=0", "--epochs", "got 0"),
            ("--seed=-1", "--seed", "expected a non-negative 64-bit integer"),
            ("--replicas=two", "--replicas", "expected a 32-bit integer, got 'two'"),
            ("--replicas=0", "--replicas", "expected 1 to 1024, got 0"),
            ("--replicas=-1", "--replicas", "expected 1 to 1024, got -1"),
            ("--replicas=1025", "--replicas", "expected 1 to 1024, got 1025"),
            ("--global_batch_size=0", "--global_batch_size", "expected at least 1, got 0"),
            ("--model=lstm", "--model", "expected one of mlp, cnn, resnet, got 'lstm'"),
            ("--optimizer=lion", "--optimizer", "expected one of sgd, momentum, adam, got 'lion'"),
            ("--schedule=cosine", "--schedule", "expected one of one_cycle, constant"),
            ("--learning_rate=fast", "--learning_rate", "expected a number, got 'fast'"),
            ("--learning_rate=-0.1", "--learning_rate", "got -0.1"),
            ("--learning_rate=nan", "--learning_rate", "expected a finite number"),
            ("--learning_rate=inf", "--learning_rate", "expected a finite number"),
            ("--log_format=xml", "log_format", "got xml"),
            ("--logical_gpus=17", "--logical_gpus", "expected 0 to 16, got 17"),
            ("--devices=TPU:0", "--devices", "device 'TPU:0': expected CPU:0"),
            ("--compute_dtype=int8", "--compute_dtype", "expected one of float, bfloat16, half"),
        ]:
            self.check_training_fails([arg], USAGE, "INVALID_ARGUMENT", where, what)

    def test_commands_take_only_their_own_flags(self):
        for command, flag in (("data", "--replicas"), ("inspect", "--rows"), ("run", "--rounds"),
                              ("devices", "--n"), ("bench", "--max_restarts")):
            with self.subTest(command):
                result = self.run_program(MIRRORFLOW, command, f"{flag}=2")
                self.assertEqual(result.returncode, USAGE, result.stderr)
                self.assertIn(f"{flag}: not a flag of {command}", result.stderr)

    def test_help_of_a_command_lists_its_own_flags(self):
        flags = {command: set(re.findall(r"^  --(\w+)=", self.run_program(
            MIRRORFLOW, *command, "--help").stdout, re.MULTILINE)) for command in ((), ("data",))}
        self.assertEqual(flags["data",], {"data_threads", "label", "rows", "shuffle", "skip_bad_records"})
        self.assertLess(flags["data",] | {"max_restarts", "replicas", "tls_key"}, flags[()])

    def test_unwritable_files_are_reported_before_training(self):
        for flag in ["loss_log", "save_variables", "save_graph", "trace"]:
            for path, code, what in [
                ("missing/file", "NOT_FOUND", "No such file or directory"),
                ("good", "FAILED_PRECONDITION", "expected a file, got a directory"),
                ("good/", "INVALID_ARGUMENT", "expected the name of a file"),
                ("good/train-labels-idx1-ubyte/file", "[A-Z_]+", "Not a directory"),
                ("/dev/null", "FAILED_PRECONDITION", "got a device"),
                ("/proc/file", "[A-Z_]+", "cannot create a file in its directory"),
            ]:
                result = self.check_training_fails([f"--{flag}={path}"], USAGE, code,
                                                   f"--{flag}={path}", what)
                self.assertNotIn("step=", result.stderr)

    def test_file_beyond_size_limit_fails_and_leaves_nothing(self):
        limit = 1 << 16  # bytes; the variables need more
        self.check_training_fails(
            ["--save_variables=large"], RESOURCES, "RESOURCE_EXHAUSTED", "large", "cannot reserve",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))

    def test_lack_of_threads_or_memory_is_reported(self):
        def limits(memory, stack):
            def set_limits():
                resource.setrlimit(resource.RLIMIT_STACK, (stack, resource.RLIM_INFINITY))
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            return set_limits

        self.check_training_fails(["--replicas=8"], RESOURCES, "RESOURCE_EXHAUSTED",
                                  "replica threads", "ulimit -v",
                                  preexec_fn=limits(4 << 30, 1 << 30))
        self.write("huge.pb", b"")
        os.truncate(self.root / "huge.pb", 3 << 29)
        self.check_fails(MIRRORFLOW, ["inspect", "huge.pb"], RESOURCES, "RESOURCE_EXHAUSTED",
                         "memory", "cannot allocate", preexec_fn=limits(1 << 30, 8 << 20))

    def test_bad_data_sets_are_reported(self):
        train_images, train_labels = images(ROWS["train"]), labels([3] * ROWS["train"])
        bad_labels = labels([77 if i == 31 else 1 for i in range(ROWS["train"])])
        for folder, change, code, file, what in [
            ("no_labels", {"train_labels_idx1_ubyte": None}, "NOT_FOUND", "",
             "expected train-labels-idx1-ubyte"),
            ("no_test", {"t10k_images_idx3_ubyte": None}, "NOT_FOUND", "",
             "expected t10k-images-idx3-ubyte"),
            ("empty", {"train_images_idx3_ubyte": b""}, "DATA_LOSS",
             "/train-images-idx3-ubyte", "the file is empty"),
            ("cut", {"train_images_idx3_ubyte": train_images[:-1]}, "DATA_LOSS",
             "/train-images-idx3-ubyte", "cut short"),
            ("cut_gzip", {"train_images_idx3_ubyte": gzip.compress(train_images)[:-200]},
             "DATA_LOSS", "/train-images-idx3-ubyte", "the gzip stream is cut short"),
            ("long", {"train_labels_idx1_ubyte": train_labels + b"\0"}, "DATA_LOSS",
             "/train-labels-idx1-ubyte", "bytes after the data"),
            ("text", {"train_labels_idx1_ubyte": b"1, 2, 3, sneaker, boot\n" * 9},
             "INVALID_ARGUMENT", "/train-labels-idx1-ubyte", "got text"),
            ("noise", {"train_images_idx3_ubyte": random.Random(1).randbytes(5000)}, "DATA_LOSS",
             "/train-images-idx3-ubyte", "not an IDX file"),
            ("swapped", {"train_labels_idx1_ubyte": train_images}, "DATA_LOSS",
             "/train-labels-idx1-ubyte", "expected [N]"),
            ("small", {"train_images_idx3_ubyte": images(ROWS["train"], 14)}, "DATA_LOSS",
             "/train-images-idx3-ubyte", "expected [N,28,28]"),
            ("fewer", {"train_images_idx3_ubyte": images(ROWS["train"] - 1)}, "DATA_LOSS",
             "/train-images-idx3-ubyte", "got 39"),
            ("label", {"train_labels_idx1_ubyte": bad_labels}, "DATA_LOSS",
             "/train-labels-idx1-ubyte", "label 31 is out of range; expected 0 to 9, got 77"),
            ("none", {"train_labels_idx1_ubyte": labels([]), "train_images_idx3_ubyte": images(0)},
             "DATA_LOSS", "/train-labels-idx1-ubyte", "expected at least one label"),
        ]:
            self.write_data(folder, **change)
            self.check_training_fails([f"--data_dir={folder}"], BAD_INPUT, code, folder + file,
                                      what)
        (self.root / "folder/train-labels-idx1-ubyte").mkdir(parents=True)
        self.check_training_fails(["--data_dir=folder"], BAD_INPUT, "FAILED_PRECONDITION",
                                  "folder/train-labels-idx1-ubyte", "got a directory")
        self.check_training_fails(["--data_dir=nowhere"], BAD_INPUT, "NOT_FOUND", "nowhere",
                                  "no such directory")

    def test_non_finite_loss_ends_training_and_losses_are_written(self):
        self.check_training_fails(
            ["--learning_rate=1e30", "--schedule=constant", "--loss_log=nan_losses"], NUMERIC,
            "OUT_OF_RANGE", "step 2", "the loss is not finite", new_files=["nan_losses"])
        self.assertEqual(len((self.root / "nan_losses").read_text().splitlines()), 2)

    def test_diverging_last_update_is_reported(self):
        self.check_training_fails(
            ["--learning_rate=1e30", "--schedule=constant", "--steps=1"], NUMERIC, "OUT_OF_RANGE",
            "test loss", "not finite")

    def test_unwritable_output_is_reported(self):
        self.write("noop.txt", "a = NoOp()\n")
        with open("/dev/full", "w") as full:
            result = subprocess.run([MIRRORFLOW, "inspect", "noop.txt"], cwd=self.root, stdout=full,
                                    stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
        self.assertEqual(result.returncode, RESOURCES, result.stderr)

    def test_parameters_counts_trainable_variables(self):
        for optimizer in ["sgd", "momentum", "adam"]:
            result = self.run_program(FASHION_MNIST, "--data_dir=good", "--model=mlp", "--steps=1",
                                      f"--optimizer={optimizer}")
            self.assertIn(" parameters=669706 ", result.stderr)

    def test_bad_commands_and_flags_are_reported(self):
        self.write("noop.txt", "a = NoOp()\n")
        for args, where, what in [
            ([], "''", "expected inspect, run, devices, ops, data, explain, bench, launch, "
             "coordinator, status, checkpoint, report or failpoints"),
            (["status"], "status", "service's HOST:PORT"),
            (["status", "nonsense"], "status", "nonsense"),
            (["train"], "'train'", "unknown command"),
            (["inspect"], "inspect", "expected one graph file, got 0"),
            (["inspect", "a", "b"], "inspect", "expected one graph file, got 2"),
            (["inspect", "noop.txt", "--replicas=-1"], "--replicas", "got -1"),
            (["inspect", "noop.txt", "--max_graph_nodes=0"], "--max_graph_nodes", "got 0"),
            (["run", "--graph=noop.txt", "--max_memory=-1"], "--max_memory", "got -1"),
            (["inspect", "noop.txt", "--global_batch_size=0"], "--global_batch_size", "got 0"),
            (["run", "--graph=noop.txt", "--logical_gpus=2", "--replicas=2"], "--logical_gpus",
             "expected only one of them"),
            (["run", "--graph=noop.txt", "--logical_gpus=2", "--device=CPU:1"], "--device",
             "expected only one of them"),
            (["run", "--graph=noop.txt", "--device=TPU"], "--device", "device 'TPU': expected CPU:0"),
            (["run", "--graph=noop.txt", "--compute_dtype=int8"], "--compute_dtype", "got 'int8'"),
            (["devices", "all"], "devices", "unexpected argument 'all'"),
            (["bench"], "bench", "expected one of step, inference, kernels, gates, allreduce, hooks, overhead, trainer, data, serving, compile"),
            (["bench", "gates", "--only=C9,Q1"], "--only", "expected one of C1, C2, C3"),
            (["bench", "speed"], "bench", "got 'speed'"),
            (["bench", "step", "--model=rnn"], "--model", "expected one of"),
            (["bench", "step", "--optimizer=sdg"], "--optimizer", "expected one of sgd,"),
            (["bench", "step", "--optimizer=adam", "--peers=jax"], "--optimizer", "got 'adam'"),
            (["bench", "step", "--hook=topk"], "--hook", "expected one of none, bf16, fp16, powersgd"),
            (["bench", "step", "--hook=bf16", "--peers=jax"], "--hook", "got 'bf16'"),
            (["bench", "step", "--batch_size=0"], "--batch_size", "got 0"),
            (["bench", "step", "--batch_size=9223372036854775807"], "--batch_size", "expected 1"),
            (["bench", "step", "--replicas=-2"], "--replicas", "got -2"),
            (["bench", "step", "--rounds=3"], "--rounds", "got 3"),
            (["bench", "step", "--peers=jax,horovod"], "--peers", "got 'horovod'"),
            (["bench", "step", "--peers=jax"], "--peers", "got 2"),
            (["bench", "step", "--model=resnet", "--replicas=1", "--workers=2", "--peers=torch"],
             "--peers", "one replica"),
            (["bench", "step", "--hosts=a,a", "--workers=2"], "--hosts", "named twice"),
            (["bench", "step", "--hosts=a,b", "--workers=2", "--rsh="], "--rsh", "ssh {host}"),
            (["bench", "step", "--hosts=a,b", "--workers=3"], "--hosts", "each of 3 workers"),
            (["bench", "step", "--hosts=a"], "--hosts", "given without --workers"),
            (["bench", "allreduce", "--transport=rdma"], "--transport", "got 'rdma'"),
            (["bench", "allreduce", "--hosts=a,b"], "--transport", "expected tcp or ucx"),
            (["bench", "allreduce", "--hosts=a", "--transport=tcp"], "--hosts", "each of 2 workers"),
            (["bench", "world_sizes", "--max_workers=65"], "--max_workers", "got 65"),
            (["bench", "serving", "--threads=2,many"], "--threads", "got 'many'"),
            (["bench", "serving", "--threads=0"], "--threads", "got 0"),
            (["bench", "serving", "--peers=torch"], "--peers", "expected one of onnxruntime, tensorflow"),
            (["bench", "compile", "--json=good/"], "--json=good/", "expected the name of a file"),
        ]:
            self.check_fails(MIRRORFLOW, args, USAGE, "INVALID_ARGUMENT", where, what)

    def test_world_sizes_shows_the_connections_between_domains(self):
        result = self.run_program(MIRRORFLOW, "bench", "world_sizes", "--max_workers=2")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = re.findall(r"workers=(\d+) +first_step_ms=\d+ +peak_mb=[\d.]+ \([+-][\d.]+\) "
                          r"connections=(\d+)\n", result.stdout)
        connections = {int(workers): int(count) for workers, count in rows}
        self.assertEqual(list(connections), [1, 2], result.stdout)
        self.assertEqual(connections[1], 0)
        self.assertGreater(connections[2], 1)  # for data and for coordination

    def test_devices_lists_devices_and_reason_for_no_gpu(self):
        result = self.run_program(MIRRORFLOW, "devices")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertRegex(lines[0], "^CPU:0 … .*usable by this process: [1-9]")
        self.assertRegex(lines[1], "^GPU(:0 |      none: ).+")
        self.assertRegex(lines[-1], "^default  MirroredStrategy uses (CPU|GPU):0")

    def test_bad_graphs_are_reported(self):
        self.check_fails(MIRRORFLOW, ["inspect", "no.pb"], BAD_INPUT, "NOT_FOUND", "no.pb")
        self.check_fails(MIRRORFLOW, ["inspect", "good"], BAD_INPUT, "FAILED_PRECONDITION", "good")
        two = node("a", "Neg", "b", T="DT_FLOAT") + node("b", "Neg", "a", T="DT_FLOAT")
        cast = node("c", "Const") + node("d", "Neg", "c", T="DT_FLOAT")
        for name, contents, what in [
            ("empty.pb", b"", "got 0 bytes"),
            ("empty.pbtxt", "# nothing\n", "cut off"),
            ("empty.txt", "# nothing\n", "the graph is empty"),
            ("random.pb", random.Random(2).randbytes(3000), "not a GraphDef"),
            ("random.pbtxt", random.Random(3).randbytes(3000), "not text"),
            ("random.txt", random.Random(4).randbytes(3000), "not text"),
            ("deep.pbtxt", "node { attr { value { list { func { attr { value { " * 10000, "line 1"),
            ("cycle.pbtxt", two + VERSIONS, "the graph has a cycle: a -> b -> a"),
            ("cycle.txt", "a = Neg(b) {T=float}\nb = Neg(a) {T=float}\n", "a -> b -> a"),
            ("twice.pbtxt", 2 * node("a", "NoOp") + VERSIONS, "NoOp(a): a node with this name"),
            ("unknown.pbtxt", node("a", "MatMull") + VERSIONS, "did you mean MatMul?"),
            ("attribute.pbtxt", cast + VERSIONS, "Const(c): "),
            ("input.pbtxt", node("a", "Neg", "z", T="DT_FLOAT") + VERSIONS, "'z'"),
            ("op.pbtxt", node("a", "Bad\\nERROR \\033[31mfake") + VERSIONS,
             r"Bad\nERROR \x1b[31mfake(a): illegal op name"),
            ("loop.pbtxt", node("a", "Merge", "b") + node("b", "NextIteration", "a") + VERSIONS,
             "a TensorFlow 1 loop"),
            ("variable.pbtxt", node("v", "VarHandleOp", dtype="DT_FLOAT").replace(
                "node { ", "node { attr { key: 'shared_name' value { s: 'v\\033[31m' } } "
                "attr { key: 'shape' value { shape { } } } ") + VERSIONS, r"got 'v\x1b[31m'"),
            # Several errors get a line each, and each line names the file.
            ("many.txt", "a = NoOp()\na = NoOp()\nb = Neg(z)\n", "line 3: Neg(b)"),
        ]:
            self.check_inspect_fails(name, contents, what)
        for name, contents, what in [
            ("ranks.txt", b"""d = Const() {dtype=int32, value=int32<>{1}}
p = Placeholder() {dtype=int32, shape=<2>}
q = Placeholder() {dtype=int32, shape=<1>}
o = ConcatOffset(d, p, q) {N=2, shape_type=int32}
""", "equal"),
            ("rank.txt", b"""x = Placeholder() {dtype=float, shape=<*>}
p = Placeholder() {dtype=int32, shape=<2147483647>}
y = Transpose(x, p) {T=float, Tperm=int32}
""", "rank"),
        ]:
            self.check_inspect_fails(name, contents, what)
        huge = "".join(f"""v{i} = VarHandleOp() {{dtype=float, shape=<1152921504606846975>}}
r{i} = ReadVariableOp(v{i}) {{dtype=float}}
""" for i in range(4))
        self.write("huge.txt", huge.encode())
        self.check_fails(MIRRORFLOW, ["inspect", "huge.txt"], RESOURCES, "RESOURCE_EXHAUSTED",
                         "huge.txt", "the variables need more than")

    def test_small_files_that_need_much_memory_are_rejected(self):
        """Checks for exit code 5 and a message that says what needs how much memory, without using
        that memory."""
        variable = "".join(f"v{i} = VarHandleOp() {{dtype=float, shape=<{2 ** i},1048576>}}\n"
                           f"r{i} = ReadVariableOp(v{i}) {{dtype=float}}\n" for i in range(3))
        filled = """d = Const() {dtype=int64, value=int64<2>{16777216, 16777216}}
z = Const() {dtype=float, value=float<>{1}}
f = Fill(d, z) {T=float, index_type=int64}
y = Neg(f) {T=float}
"""
        fetched = "v = VarHandleOp() {dtype=float, shape=<1048576>}\n" + "".join(
            f"r{i} = ReadVariableOp(v) {{dtype=float}}\n" for i in range(100))
        constants = "".join(
            "node { name: 'c%d' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } attr { "
            "key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 268435456 } }"
            " } } } }\n" % i for i in range(9)) + VERSIONS
        calls = "node { name: 'call' op: 'f0' }\nlibrary { " + "".join(
            f"function {{ signature {{ name: 'f{i}' }} node_def {{ name: 'a' op: 'f{i + 1}' }} "
            f"node_def {{ name: 'b' op: 'f{i + 1}' }} }}\n" for i in range(50)) + "}\n" + VERSIONS
        for name, contents, flags, what in [
            ("variable.txt", variable, ["--max_memory=32"],
             "the variables of 2 replicas need too much memory; largest: variable 'v2' with "
             "16777216 bytes; expected at most 33554432 bytes, got 58720256"),
            ("filled.txt", filled, [],
             "Fill(f) with 1125899906842624 bytes; expected at most "),
            ("fetched.txt", fetched, ["--max_memory=64", "--replicas=1"],
             "its fetches need too much memory"),
            ("constants.pbtxt", constants, ["--max_memory=20"], "Const(c0): attribute 'value'"),
            ("calls.pbtxt", calls, [], "f0(call): the graph is too large at this node"),
            ("nodes.txt", "a = NoOp()\n" * 3, ["--max_graph_nodes=2"], "line 3: NoOp(a): "),
            ("file.txt", "a = NoOp()\n" * 200000, ["--max_memory=1"], "the file is too large"),
        ]:
            self.write(name, contents)
            self.check_fails(
                MIRRORFLOW, ["inspect", name, *flags], RESOURCES, "RESOURCE_EXHAUSTED", name, what,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)))


if __name__ == "__main__":
    main()
