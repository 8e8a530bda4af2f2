#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training that is killed or stopped at random points and resumed ends like undisturbed training.

Compares everything that training leaves, byte for byte: the variables, the log, the best variables,
and what the event files and the callbacks report, apart from times.
"""

import fcntl
import os
import shutil
import signal
import time
import unittest

from disturbed import PREEMPTED, SECONDS, DisturbedTest

# The number of points, over all tests. Each takes about two runs of the program.
POINTS = int(os.environ.get("MIRRORFLOW_RESUME_POINTS", "80"))
SEED = int(os.environ.get("MIRRORFLOW_RESUME_SEED", "1"))
# The failpoints where the process kills itself, and how often a run passes each of them.
PLACES = {"train/step": 100, "train/inference_step": 200, "train/epoch_end": 10,
          "checkpoint/begin": 50, "checkpoint/data/write": 50, "checkpoint/rename": 50,
          "checkpoint/fsync_parent": 50, "checkpoint/removed": 40}


class ResumeTest(DisturbedTest):
    SEED = SEED

    def wait_for_workers(self, directory):
        """Waits until the workers of a killed launcher have also ended."""
        lock = directory / "checkpoints/lock"
        deadline = time.monotonic() + SECONDS
        while lock.exists():
            with open(lock, "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                except BlockingIOError:
                    self.assertLess(time.monotonic(), deadline, "a worker outlives its launcher")
            time.sleep(0.01)

    def disturb(self, replicas, workers, directory):
        """Starts training and ends it at a random point. Returns how it did so, for messages."""
        kind = self.random.choice(("place", "place", "SIGKILL", "SIGTERM", "SIGTERM"))
        if kind == "place":
            name = self.random.choice(sorted(PLACES))
            worker = f"@{self.random.randrange(workers)}" if not name.startswith("checkpoint") else ""
            point = f"{name}=kill{worker}#{self.random.randint(1, PLACES[name])}"
            code, output = self.finish(
                self.start(replicas, workers, directory, failpoints=point))
            if workers == 1:
                self.assertIn(code, (0, -signal.SIGKILL), output)
            self.disturbances += code != 0
            return point
        job = self.start(replicas, workers, directory)
        delay = self.random.uniform(0, 1.3 * self.seconds)
        time.sleep(delay)
        if job.poll() is None:
            job.send_signal(getattr(signal, kind))
        code, output = self.finish(job)
        self.wait_for_workers(directory)
        self.disturbances += code != 0
        if kind == "SIGTERM" and workers == 1:
            # A signal that arrives before main has installed its handler ends the process.
            self.assertIn(code, (0, PREEMPTED, -signal.SIGTERM), output)
        return f"{kind} after {delay:.3f} s"

    def check(self, points, replicas, workers=1):
        whole = self.root / "whole"
        whole.mkdir()
        begin = time.monotonic()
        code, output = self.finish(self.start(replicas, workers, whole))
        self.seconds = time.monotonic() - begin
        self.assertEqual(code, 0, output)
        # The training stops early and adjusts the learning rate, so the test covers both.
        self.assertIn("stopped early stopping", (whole / "result.txt").read_text())
        self.assertIn("77 learning_rate 0.0037", (whole / "result.txt").read_text())
        self.disturbances = resumed = 0
        for number in range(points):
            part = self.root / "part"
            part.mkdir()
            history = []
            # Some runs are disturbed again.
            for _ in range(self.random.choice((1, 1, 2, 3))):
                history.append(self.disturb(replicas, workers, part))
            has_checkpoint = any((part / "checkpoints").glob("step-*"))
            code, output = self.finish(self.start(replicas, workers, part))
            resumed += has_checkpoint
            with self.subTest(number=number, history=history, seed=SEED):
                self.assertEqual(code, 0, output)
                self.assertEqual("resumed from" in output, has_checkpoint, output)
                self.compare(whole, part)
            shutil.rmtree(part)
        # Some runs end before their point, more of them if the machine is busy.
        self.assertGreater(self.disturbances, points // 3)
        self.assertGreater(resumed, points // 3)

    def test_one_replica(self):
        self.check(POINTS * 3 // 8, replicas=1)

    def test_two_replicas(self):
        self.check(POINTS * 3 // 8, replicas=2)

    def test_two_workers(self):
        self.check(POINTS // 4, replicas=1, workers=2)

    def test_finished_training_changes_nothing(self):
        """Checks that a finished program leaves the same files when it is restarted."""
        whole, again = self.root / "whole", self.root / "again"
        for directory, times in ((whole, 1), (again, 3)):
            directory.mkdir()
            for _ in range(times):
                code, output = self.finish(self.start(2, 1, directory))
                self.assertEqual(code, 0, output)
        self.compare(whole, again)


if __name__ == "__main__":
    unittest.main()
