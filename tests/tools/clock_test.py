#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that jumps of the time of day during training do not affect deadlines and heartbeats."""

import json
import os
import signal
import struct
import subprocess
import time

import programs
import restarts
from processes import send_signal, takes_signal, tree_of
from programs import CLUSTER, MIRRORFLOW
from restarts import SAVE, SECONDS

LIBRARY = os.path.abspath("tests/tools/libclock_jump.so")
HOUR = 3600.0


class ClockTest(restarts.RestartsTestCase):

    def jump(self, seconds):
        path = self.root / "clock"
        path.touch()
        with open(path, "r+b") as file:  # in place, because the processes have mapped it
            file.write(struct.pack("d", seconds))

    def start(self, collective, *more):
        self.jump(0)
        return subprocess.Popen(
            [MIRRORFLOW, "launch", "-n", "2", "--grace=1s", "--", *self.train, "--replicas=1",
             f"--collective={collective}", *SAVE, *more], cwd=self.root, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "LD_PRELOAD": LIBRARY, "CLOCK_JUMP": str(self.root / "clock")})

    def check_jumped(self, seconds):
        """Checks that the workers saw the jump: a checkpoint says when it was saved."""
        events = (self.root / "saved/events.jsonl").read_text().splitlines()
        saved = [e["time"] for e in map(json.loads, events) if e["event"] == "saved"]
        first, last = (time.strptime(t[:19], "%Y-%m-%dT%H:%M:%S") for t in (saved[0], saved[-1]))
        self.assertAlmostEqual(time.mktime(last) - time.mktime(first), seconds, delta=SECONDS)

    def test_training_goes_on(self):
        for collective in ("auto", "tcp"):
            for seconds in (HOUR, -HOUR):
                with self.subTest(collective, seconds=seconds):
                    self.setUp()
                    job = self.start(collective)
                    self.wait_for_step(200)
                    self.jump(seconds)
                    _, err = job.communicate(timeout=SECONDS)
                    self.assertEqual(job.returncode, 0, err)
                    self.check_same_bits()
                    self.check_jumped(seconds)

    def test_stopped_worker_is_noticed_in_time(self):
        for seconds in (HOUR, -HOUR):
            with self.subTest(seconds=seconds):
                self.setUp()
                job = self.start("tcp", "--steps=100000000", "--heartbeat_timeout=2s")
                self.wait_for_step(100)
                self.jump(seconds)
                workers = [p for p in tree_of(job.pid)
                           if takes_signal(p, signal.SIGTERM, "fashion_mnist")]
                self.assertEqual(len(workers), 2)
                send_signal(signal.SIGSTOP, workers[1])
                begin = time.monotonic()
                _, err = job.communicate(timeout=SECONDS)
                self.assertLess(time.monotonic() - begin, SECONDS / 3)
                self.assertEqual(job.returncode, CLUSTER, err)
                self.assertIn("no heartbeat for", err)


if __name__ == "__main__":
    programs.main()
