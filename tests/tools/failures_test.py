#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that fail in the middle of a training: the others end in time and name them."""

import os
import signal
import subprocess
import time
import unittest

import programs
from programs import CLUSTER, USAGE, free_port

SECONDS = 60  # no job takes that long; more is a hang
HEARTBEAT = 2
WORKERS = 3


class FailuresTest(programs.ProgramTest):

    def start(self, *flags):
        """Starts workers that train until they are stopped, and waits until they do."""
        port = free_port()
        workers = []
        for rank in range(WORKERS):
            environment = {**os.environ, "MIRRORFLOW_NUM_WORKERS": str(WORKERS),
                           "MIRRORFLOW_WORKER_INDEX": str(rank),
                           "MIRRORFLOW_COORDINATOR": f"127.0.0.1:{port}"}
            command = [programs.FASHION_MNIST, *programs.TRAIN_TINY, "--model=mlp", "--replicas=1",
                       "--steps=1000000000", f"--heartbeat_timeout={HEARTBEAT}s",
                       "--loss_log=losses.log", *flags]
            workers.append(subprocess.Popen(command, cwd=self.root, env=environment, text=True,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
        self.addCleanup(lambda: [w.kill() for w in workers])
        self.wait_for_steps(10)
        return workers

    def num_steps(self):
        log = self.root / "losses.log"
        return log.read_text().count("\n") if log.exists() else 0

    def wait_for_steps(self, count):
        until = time.monotonic() + SECONDS
        while self.num_steps() < count:
            self.assertLess(time.monotonic(), until, "no progress")
            time.sleep(0.02)

    def tearDown(self):
        (self.root / "losses.log").unlink(missing_ok=True)

    def check_others_end(self, workers, rank, expected):
        begin = time.monotonic()
        for other, worker in enumerate(workers):
            if other == rank:
                continue
            err = worker.communicate(timeout=SECONDS)[1]
            # Idle machines take one second more than the timeout; without heartbeats it takes 20.
            self.assertLess(time.monotonic() - begin, HEARTBEAT + 8)
            self.assertEqual(worker.returncode, CLUSTER, err)
            self.assertRegex(err.splitlines()[-1], f"^ERROR UNAVAILABLE {expected}")

    def test_stopped_worker_is_named_within_the_heartbeat_timeout(self):
        for collective in ("shared_memory", "ucx"):
            for rank in range(WORKERS):
                with self.subTest(f"worker {rank}, {collective}"):
                    workers = self.start(f"--collective={collective}")
                    workers[rank].send_signal(signal.SIGSTOP)
                    self.check_others_end(
                        workers, rank,
                        "worker 0 is gone: no answer from the coordination service"
                        if rank == 0 else
                        rf"worker {rank} \(process {workers[rank].pid} on .*\) is gone: no sign of "
                        r"life for 2\.\d s, no progress since step \d+")
                    # It learns that the others have gone on without it.
                    workers[rank].send_signal(signal.SIGCONT)
                    err = workers[rank].communicate(timeout=SECONDS)[1]
                    self.assertEqual(workers[rank].returncode, CLUSTER, err)
                    self.tearDown()

    def test_slow_worker_is_a_warning(self):
        for rank in (0, 1):
            with self.subTest(f"worker {rank}"):
                workers = self.start("--heartbeat_timeout=6s")
                workers[rank].send_signal(signal.SIGSTOP)
                time.sleep(3)
                workers[rank].send_signal(signal.SIGCONT)
                self.wait_for_steps(self.num_steps() + 20)
                for worker in workers:
                    self.assertIsNone(worker.poll())
                    worker.kill()
                errors = [worker.communicate(timeout=SECONDS)[1] for worker in workers]
                if rank == 1:
                    self.assertRegex(errors[0], "WARNING: worker 1 on .* is slow: no sign of life")
                self.assertNotIn("ERROR", "".join(errors))
                self.tearDown()

    def test_killed_worker_is_named_at_once(self):
        for rank in range(WORKERS):
            with self.subTest(f"worker {rank}"):
                workers = self.start()
                workers[rank].kill()
                self.check_others_end(workers, rank, f"worker {rank} .*is gone")
                self.tearDown()

    def test_timeout_out_of_range_is_a_usage_error(self):
        result = subprocess.run(
            [programs.FASHION_MNIST, *programs.TRAIN_TINY, "--heartbeat_timeout=1ms"],
            cwd=self.root, text=True, capture_output=True, timeout=SECONDS, check=False,
            env={**os.environ, "MIRRORFLOW_NUM_WORKERS": "2", "MIRRORFLOW_WORKER_INDEX": "0",
                 "MIRRORFLOW_COORDINATOR": f"127.0.0.1:{free_port()}"})
        self.assertEqual(result.returncode, USAGE, result.stderr)
        self.assertIn("--heartbeat_timeout: out of range", result.stderr)


if __name__ == "__main__":
    programs.main()
