#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/ do what their first lines say. //tests:readme_test has readme.cc."""

import os
import re
import subprocess
import tempfile
import unittest


def run(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, **environment})


class ExamplesTest(unittest.TestCase):

    def test_custom_op_is_fused_and_has_its_gradient(self):
        result = run("examples/custom_op")
        self.assertEqual(result.returncode, 0, result.stderr)
        # x * sigmoid(x) and its derivative at -1, 0 and 2.
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
