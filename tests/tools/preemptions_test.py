#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on four workers that is preempted at random and resumed ends like undisturbed training.

SIGTERM goes to all processes of the job, as slurmstepd and systemd send it, to the launcher, or to
one worker, at any moment from when the workers have begun: while they connect, before Fit, in a
step, in a validation or in a save.
"""

import os
import shutil
import signal
import time
import unittest

from disturbed import PREEMPTED, SECONDS, DisturbedTest
from processes import takes_signal, tree_of

# Each costs part of a run of the program. 100 take about five minutes on two cores.
PREEMPTIONS = int(os.environ.get("MIRRORFLOW_PREEMPTIONS", "12"))
WORKERS = 4


class PreemptionsTest(DisturbedTest):
    SEED = int(os.environ.get("MIRRORFLOW_PREEMPTIONS_SEED", "1"))

    def start_job(self, directory):
        return self.start(1, WORKERS, directory, f"--max_restarts={PREEMPTIONS}",
                          "--restart_pause=10ms")

    def workers_of(self, job):
        """The workers that handle signals and have not ended."""
        return [p for p in tree_of(job.pid)[1:] if takes_signal(p, signal.SIGTERM, "disturbed_train")]

    def preempt(self, directory):
        """Starts the job and preempts it. Returns how, and the exit code."""
        job = self.start_job(directory)
        deadline = time.monotonic() + SECONDS
        while len(self.workers_of(job)) < WORKERS and job.poll() is None:
            self.assertLess(time.monotonic(), deadline, "not all workers begin")
            time.sleep(0.002)
        delay = self.random.uniform(0, 1.1 * self.seconds)
        time.sleep(delay)
        target = self.random.choice(("tree", "tree backwards", "launcher", "worker"))
        if target == "launcher":
            processes = [job.pid]
        elif target == "worker":
            processes = self.workers_of(job)
            processes = [self.random.choice(processes)] if processes else []
        else:
            processes = tree_of(job.pid)[::-1 if target == "tree backwards" else 1]
        for process in processes:
            try:
                os.kill(process, signal.SIGTERM)
            except ProcessLookupError:
                pass  # it has just ended
        code, output = self.finish(job)
        how = f"{target} after {delay:.3f} s"
        self.assertIn(code, (0, PREEMPTED), f"{how}: {output}")
        return how, code

    def test_preempted_training_ends_as_undisturbed_training(self):
        whole = self.root / "whole"
        whole.mkdir()
        begin = time.monotonic()
        code, output = self.finish(self.start_job(whole))
        self.seconds = time.monotonic() - begin
        self.assertEqual(code, 0, output)
        preemptions = stopped = 0
        while preemptions < PREEMPTIONS:
            part = self.root / "part"
            part.mkdir()
            history, code = [], PREEMPTED
            while code == PREEMPTED:
                how, code = self.preempt(part)
                history.append(how)
                stopped += code == PREEMPTED
            preemptions += len(history)
            with self.subTest(history=history, seed=self.SEED):
                self.compare(whole, part)
            shutil.rmtree(part)
        self.assertGreater(stopped, 0)


if __name__ == "__main__":
    unittest.main()
