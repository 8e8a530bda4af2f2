#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stops and kills trainings of several workers, which go on from their checkpoints."""

import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import programs
from programs import BAD_INPUT, MIRRORFLOW, USAGE

SECONDS = 90  # no job takes ten; more is a hang
STEPS = 2000
KILLS = int(os.environ.get("MIRRORFLOW_KILLS", "4"))
PREEMPTED, INTERRUPTED = 75, 130
TRAIN = [*programs.TRAIN_TINY, "--model=mlp", f"--steps={STEPS}"]
SAVE = ["--checkpoint_dir=saved", "--checkpoint_every=100", "--loss_log=part.log",
        "--save_variables=part.safetensors"]


class RestartsTest(programs.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        subprocess.run([programs.FASHION_MNIST, *TRAIN, "--replicas=2", "--loss_log=whole.log",
                        "--save_variables=whole.safetensors"], cwd=cls.root, check=True,
                       timeout=SECONDS, capture_output=True)

    def setUp(self):
        shutil.rmtree(self.root / "saved", ignore_errors=True)

    def start(self, *flags, **environment):
        return subprocess.Popen(
            [MIRRORFLOW, "launch", "-n", "2", *flags, "--", programs.FASHION_MNIST, *TRAIN,
             "--replicas=1", *SAVE], cwd=self.root, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, **environment})

    def finish(self, job):
        out, err = job.communicate(timeout=SECONDS)
        return subprocess.CompletedProcess(job.args, job.returncode, out, err)

    def workers(self):
        """The processes of the workers of this test case, by rank."""
        found = {}
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{process}/environ", encoding="utf-8") as file:
                    variables = dict(v.split("=", 1) for v in file.read().split("\0") if "=" in v)
                executable = os.readlink(f"/proc/{process}/exe")
            except OSError:
                continue
            is_own = variables.get("RESTARTS_TEST") == self.id() and "RANK" in variables
            if is_own and os.path.basename(executable) == "fashion_mnist":
                found[int(variables["RANK"])] = int(process)
        return found

    def wait_for_step(self, step):
        """Waits until a checkpoint of this step or a later one has been saved."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            names = [p.name for p in (self.root / "saved").glob("step-*")]
            if any(int(name[5:]) >= step for name in names):
                return
            time.sleep(0.005)
        self.fail(f"no checkpoint of step {step}")

    def check_same_bits(self):
        for name in ("log", "safetensors"):
            self.assertEqual((self.root / f"part.{name}").read_bytes(),
                             (self.root / f"whole.{name}").read_bytes(), name)

    def check_goes_on(self):
        result = self.finish(self.start())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_same_bits()

    def test_killed_worker_is_started_again_until_training_is_done(self):
        # Each attempt saves one checkpoint more.
        job = self.start("--max_restarts=30", MIRRORFLOW_FAILPOINTS="checkpoint/rename=kill@0#2")
        result = self.finish(job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("restart 5 of at most 30", result.stderr)
        self.assertIn("signal 9 (KILL)", result.stderr)
        self.check_same_bits()

    def test_workers_killed_at_random_times(self):
        generator = random.Random(11)
        job = self.start(f"--max_restarts={KILLS}", RESTARTS_TEST=self.id())
        kills = 0
        while kills < KILLS and job.poll() is None:
            time.sleep(generator.uniform(0.05, 0.6))
            workers = self.workers()
            if workers:
                os.kill(generator.choice(sorted(workers.values())), signal.SIGKILL)
                kills += 1
        self.assertGreater(kills, 0)
        result = self.finish(job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_same_bits()

    def test_sigterm_to_one_worker_stops_all_after_the_same_step(self):
        for rank in (0, 1):
            with self.subTest(f"worker {rank}"):
                self.setUp()
                job = self.start(RESTARTS_TEST=self.id())
                self.wait_for_step(100)
                os.kill(self.workers()[rank], signal.SIGTERM)
                result = self.finish(job)
                self.assertEqual(result.returncode, PREEMPTED, result.stderr)
                self.assertRegex(result.stderr, r"stopped by SIGTERM after step \d+")
                self.check_goes_on()

    def test_signal_to_the_launcher_stops_the_job_and_does_not_restart_it(self):
        for number, code in ((signal.SIGTERM, PREEMPTED), (signal.SIGINT, INTERRUPTED)):
            with self.subTest(number.name):
                self.setUp()
                job = self.start("--max_restarts=5")
                self.wait_for_step(100)
                job.send_signal(number)
                result = self.finish(job)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertRegex(result.stderr, rf"stopped by {number.name} after step \d+")
                self.assertNotIn("restart", result.stderr)
                self.check_goes_on()

    def test_second_signal_ends_the_job_at_once(self):
        job = self.start(MIRRORFLOW_FAILPOINTS="checkpoint/rename=hang@0#3")
        self.wait_for_step(200)
        time.sleep(0.2)  # the third save hangs
        job.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        self.assertIsNone(job.poll())
        job.send_signal(signal.SIGTERM)
        result = self.finish(job)
        self.assertEqual(result.returncode, 128 + signal.SIGTERM, result.stderr)
        self.check_goes_on()

    def test_single_process_stops_likewise(self):
        command = [programs.FASHION_MNIST, *TRAIN, "--steps=100000000", "--replicas=2", *SAVE]
        for number, code in ((signal.SIGTERM, PREEMPTED), (signal.SIGINT, INTERRUPTED)):
            self.setUp()
            process = subprocess.Popen(command, cwd=self.root, text=True, stderr=subprocess.PIPE,
                                       stdout=subprocess.DEVNULL)
            self.wait_for_step(100)
            process.send_signal(number)
            err = process.communicate(timeout=SECONDS)[1]
            self.assertEqual(process.returncode, code, err)
            self.assertIn(f"stopped by {number.name} after step", err)
        # Without checkpoints, nothing can be saved.
        process = subprocess.Popen(command[:-len(SAVE)], cwd=self.root, stderr=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        process.terminate()
        self.assertEqual(process.wait(timeout=SECONDS), -signal.SIGTERM)

    def test_only_ends_that_may_differ_are_restarted(self):
        for code, restarts in ((1, 2), (4, 2), (PREEMPTED, 2), (USAGE, 0), (BAD_INPUT, 0), (5, 0),
                               (6, 0), (INTERRUPTED, 0)):
            with self.subTest(code):
                result = subprocess.run(
                    [MIRRORFLOW, "launch", "-n", "1", "--max_restarts=2", "--", "sh", "-c",
                     f"echo attempt $MIRRORFLOW_RESTART_COUNT; exit {code}"], text=True,
                    capture_output=True, timeout=SECONDS, check=False)
                self.assertEqual(result.returncode, code)
                self.assertEqual(result.stdout, "".join(
                    f"[worker 0] attempt {i}\n" for i in range(restarts + 1)))


if __name__ == "__main__":
    programs.main()
