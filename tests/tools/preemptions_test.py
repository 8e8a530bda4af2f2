#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training on four workers that is preempted at random and resumed ends like undisturbed training.

SIGTERM goes to all processes of the job, as slurmstepd and systemd send it, to the launcher, or to
one worker. It arrives at any time after the workers have started, and in each phase of training.
"""

import os
import shutil
import signal
import time
import unittest

from disturbed import PREEMPTED, SECONDS, DisturbedTest
from processes import is_stopped, send_signal, takes_signal, tree_of

# Each preemption costs part of a run of the program. 100 preemptions take about five minutes on two
# cores.
PREEMPTIONS = int(os.environ.get("MIRRORFLOW_PREEMPTIONS", "12"))
WORKERS = 4
# The failpoint that suspends a worker in each phase, so SIGTERM arrives in that phase. The training
# run predicts twice before its first validation.
PHASES = {"before Fit": "disturbed_training/before_fit=stop@1",
          "in a step": "session/run=stop@1#2",
          "in a validation": "train/inference_step=stop@1#4",
          "in a save": "checkpoint/rename=stop@0#1"}


class PreemptionsTest(DisturbedTest):
    SEED = int(os.environ.get("MIRRORFLOW_PREEMPTIONS_SEED", "1"))

    def start_job(self, directory, failpoints=None):
        return self.start(1, WORKERS, directory, f"--max_restarts={PREEMPTIONS}",
                          "--restart_pause=10ms", failpoints=failpoints)

    def workers_of(self, job):
        """Returns the workers that handle signals and have not ended."""
        return [p for p in tree_of(job.pid)[1:] if takes_signal(p, signal.SIGTERM, "disturbed_train")]

    def preempt(self, directory):
        """Starts the job and preempts it. Returns how it did so, and the exit code."""
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
        send_signal(signal.SIGTERM, *processes)
        code, output = self.finish(job)
        how = f"{target} after {delay:.3f} s"
        self.assertIn(code, (0, PREEMPTED), f"{how}: {output}")
        return how, code

    def stopped_worker_of(self, job):
        """Waits until a worker of the job is suspended, and returns it."""
        deadline = time.monotonic() + SECONDS
        while not (stopped := [p for p in tree_of(job.pid) if is_stopped(p)]):
            self.assertIsNone(job.poll(), "the job ends before the failpoint")
            self.assertLess(time.monotonic(), deadline, "no worker stops")
            time.sleep(0.002)
        return stopped[0]

    def test_preemption_in_each_phase_is_honoured(self):
        whole = self.root / "whole"
        whole.mkdir()
        code, output = self.finish(self.start_job(whole))
        self.assertEqual(code, 0, output)
        for phase, failpoint in PHASES.items():
            with self.subTest(phase):
                part = self.root / phase
                part.mkdir()
                job = self.start_job(part, failpoint)
                worker = self.stopped_worker_of(job)
                send_signal(signal.SIGTERM, *tree_of(job.pid))
                send_signal(signal.SIGCONT, worker)
                code, output = self.finish(job)
                self.assertEqual(code, PREEMPTED, output)
                if phase != "before Fit":  # in that phase, the worker ends at once and is lost
                    self.assertNotIn("ERROR", output)
                    self.assertTrue(any((part / "checkpoints").glob("step-*")), output)
                code, output = self.finish(self.start_job(part))
                self.assertEqual(code, 0, output)
                self.compare(whole, part)

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
