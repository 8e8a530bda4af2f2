# SPDX-License-Identifier: Apache-2.0
"""Code shared by tests that disturb disturbed_training and compare the files that it leaves."""

import os
import pathlib
import random
import subprocess
import tempfile
import unittest

PROGRAM = os.path.abspath("tests/tools/disturbed_training")
MIRRORFLOW = os.path.abspath("tools/mirrorflow")
SECONDS = 60  # a run takes less than 1 s; a run this long hangs
PREEMPTED = 75
EPOCHS = 12
FILES = ("last.safetensors", "best.safetensors", "newest.safetensors", "log.csv", "result.txt")


class DisturbedTest(unittest.TestCase):
    SEED = 1

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        self.random = random.Random(self.SEED)

    def command(self, replicas, workers, directory, *flags, failpoints=None):
        """`flags` go to the launcher. `failpoints` go only to the program, because the launcher
        rejects the names that it does not know."""
        program = [PROGRAM, str(replicas), str(directory), str(EPOCHS)]
        if failpoints:
            program = ["env", f"MIRRORFLOW_FAILPOINTS={failpoints}", *program]
        if workers == 1:
            return program
        return [MIRRORFLOW, "launch", "-n", str(workers), *flags, "--", *program]

    def start(self, *args, **kwargs):
        """Starts command(*args, **kwargs)."""
        return subprocess.Popen(self.command(*args, **kwargs), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def finish(self, job):
        try:
            output, _ = job.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            job.kill()
            self.fail("the training hangs: " + job.communicate()[0])
        return job.returncode, output

    def compare(self, whole, part):
        for name in FILES:
            expected, got = (whole / name).read_bytes(), (part / name).read_bytes()
            if name.endswith(("csv", "txt")):
                self.assertEqual(got.decode(), expected.decode(), name)
            else:
                self.assertEqual(got, expected, name)
