#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the programs in examples/ do what their first lines say. //tests:readme_test covers readme.cc."""

import collections
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import unittest


def run(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, **environment})


def variables(path):
    """Returns the bytes of each tensor in a safetensors file, by name."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return {name: data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}


def write_table(path):
    """Writes a table to learn. The target is y; column `name` is text, and `noise` does not affect y."""
    numbers = random.Random(1)
    lines = ["name,a,noise,y,b"]
    for i in range(300):
        a, b, noise = (numbers.gauss(0, 1) for _ in range(3))
        lines.append(f"row {i},{100 + 7 * a:.3f},{noise:.3f},{500 + 40 * a - 30 * b * b:.3f},{b:.3f}")
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


class ExamplesTest(unittest.TestCase):

    def test_custom_op_is_fused_and_has_its_gradient(self):
        result = run("examples/custom_op")
        self.assertEqual(result.returncode, 0, result.stderr)
        # Expected values: x * sigmoid(x) and its derivative at -1, 0 and 2.
        self.assertEqual(result.stdout, "swish -0.2689  fused -0.2689  gradient 0.0723\n"
                                        "swish 0.0000  fused 0.0000  gradient 0.5000\n"
                                        "swish 1.7616  fused 1.7616  gradient 1.0908\n")

    def test_cnn_trains_and_continues_from_its_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = os.path.join(folder, "cnn.safetensors")
            losses = []
            for _ in range(2):
                result = run("examples/cnn", "1", checkpoint)
                self.assertEqual(result.returncode, 0, result.stderr)
                loss, accuracy = re.fullmatch(r"loss=(\S+) test_accuracy=(\S+)\n",
                                              result.stdout).groups()
                losses.append(float(loss))
                self.assertGreater(float(accuracy), 0.8)
            self.assertLess(losses[1], losses[0])

    def check_learns(self, *command, **bounds):
        """Runs a program on two replicas. Each number on its last line must be within its bounds."""
        result = run(*command)
        self.assertEqual(result.returncode, 0, result.stderr)
        line = result.stdout.splitlines()[-1]
        values = {name: float(value) for name, value in re.findall(r"(\w+)=(\S+)", line)}
        for name, (low, high) in bounds.items():
            self.assertGreaterEqual(values[name], low, line)
            self.assertLessEqual(values[name], high, line)
        return values, result.stdout

    def test_resnet_learns(self):
        self.check_learns("examples/resnet", "3", "2", "2000", test_accuracy=(0.5, 1))

    def test_lstm_learns(self):
        self.check_learns("examples/lstm", "2", "2", "4000", test_accuracy=(0.6, 1))

    def test_custom_loop_learns_and_lowers_its_rate(self):
        _, printed = self.check_learns("examples/custom_loop", "8", "2", "4000",
                                       test_accuracy=(0.75, 1))
        rates = [float(rate) for rate in re.findall(r"rate=(\S+)", printed)]
        self.assertEqual(len(rates), 8)
        self.assertLess(rates[-1], rates[0])

    def test_gan_makes_images_like_the_real_ones(self):
        # Grey images, or copies of a single image, have a larger distance: 0.12 is the mean
        # variance.
        self.check_learns("examples/gan", "3", "2", "20000", untrained_distance=(0.1, 1),
                          distance=(0, 0.07), discriminator_loss=(0.1, 0.69))

    def test_char_gpt_learns_more_than_frequencies_and_writes(self):
        text = pathlib.Path("LICENSE").read_bytes()
        entropy = -sum(n / len(text) * math.log(n / len(text))
                       for n in collections.Counter(text).values())
        _, printed = self.check_learns("examples/char_gpt", "LICENSE", "300", "2",
                                       perplexity=(1, 0.6 * math.exp(entropy)))
        written = printed[:printed.rindex("\nperplexity")]
        self.assertGreaterEqual(len(written), 300)
        self.assertGreater(len(set(written)), 10)
        self.assertLessEqual(set(written), set(text.decode()))

    def test_csv_regression_chooses_columns_and_explains_the_target(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table.csv")
            write_table(path)
            command = ["examples/csv_regression", path, "y"]
            right, _ = self.check_learns(*command, "b,a", "500", "2", test_r2=(0.9, 1))
            self.check_learns(*command, "noise", "500", "2", test_r2=(-1, 0.2),
                              test_rmse=(2 * right["test_rmse"], 1000))
            failed = run(*command, "b,c")
            self.assertEqual(failed.returncode, 1)
            self.assertIn("got 'c'", failed.stderr)

    def test_transfer_learning_needs_the_weights_and_leaves_them_unchanged(self):
        weights = "tests/references/examples/keras.safetensors"
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.safetensors")
            command = ["300", "10", "2"]
            # The weights are those of three convolutions, and four variables for each of three
            # normalisations.
            trained, _ = self.check_learns("examples/transfer_learning", weights, *command, out,
                                           loaded=(15, 15), test_accuracy=(0.85, 1))
            self.check_learns("examples/transfer_learning", "none", *command, loaded=(0, 0),
                              test_accuracy=(0, trained["test_accuracy"] - 0.04))
            given, kept = variables(weights), variables(out)
        for name in kept:
            if name.startswith("base/"):
                self.assertEqual(kept[name], given[name], name)

    def test_serve_answers_all_requests_while_weights_change(self):
        # There are more threads than cores, so some have to wait.
        _, printed = self.check_learns("examples/serve", "4", "4000", threads=(4, 4),
                                       requests=(4000, 4000), updates=(1, math.inf),
                                       requests_per_s=(1, math.inf))
        p50, p99 = (float(ms) for ms in re.findall(r"p\d\d_ms=(\S+)", printed))
        self.assertLessEqual(p50, p99)
        self.assertEqual(run("examples/serve", "0").returncode, 2)

    def test_workers_compute_together_what_they_say(self):
        one = run("examples/workers")
        self.assertEqual(one.returncode, 0, one.stderr)
        two = run("tools/mirrorflow", "launch", "-n", "2", "--", "examples/workers")
        self.assertEqual(two.returncode, 0, two.stderr)
        text = r"loss after 100 steps with %d replicas: (\d\.\d{4})\n"
        losses = [float(re.fullmatch(prefix + text % replicas, result.stdout)[1])
                  for prefix, replicas, result in (("", 1, one), (r"\[worker 0\] ", 2, two))]
        self.assertLess(abs(losses[0] - losses[1]), 0.01 * losses[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
