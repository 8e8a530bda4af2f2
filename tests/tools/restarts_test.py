#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stops and kills training runs with several workers, which resume from their checkpoints."""

import os
import random
import re
import signal
import subprocess
import time

import programs
import restarts
from programs import BAD_INPUT, MIRRORFLOW, USAGE
from processes import name_of, send_signal, tree_of
from restarts import INTERRUPTED, PREEMPTED, SAVE, SECONDS

# Training that only a signal ends, no matter how late the signal comes on a busy machine.
ENDLESS = "--steps=100000000"
KILLS = int(os.environ.get("MIRRORFLOW_KILLS", "4"))


class RestartsTest(restarts.RestartsTestCase):

    def start(self, *flags, collective="auto", more=(), **environment):
        return subprocess.Popen(
            [MIRRORFLOW, "launch", "-n", "2", *flags, "--", *self.train, "--replicas=1",
             f"--collective={collective}", *SAVE, *more], cwd=self.root, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, **environment})

    def finish(self, job):
        out, err = job.communicate(timeout=SECONDS)
        return subprocess.CompletedProcess(job.args, job.returncode, out, err)

    def workers(self):
        """Returns the worker processes of this test case, by rank."""
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

    def check_goes_on(self):
        """Checks that training continues for some steps with the results of an undisturbed run."""
        steps = self.last_saved() + 150
        self.train_undisturbed("longer", steps)
        result = self.finish(self.start(more=[f"--steps={steps}"]))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_same_bits("longer")

    def test_killed_worker_is_started_again_until_training_is_done(self):
        # Each attempt saves one more checkpoint, which resets the restart count.
        job = self.start("--max_restarts=1", "--restart_pause=10ms",
                         MIRRORFLOW_FAILPOINTS="checkpoint/rename=kill@0#2")
        result = self.finish(job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("restart 1 of at most 1 since step 500 was saved", result.stderr)
        self.assertRegex(result.stderr,
                         r"first failure : worker 0 \(pid (\d+)\) signal 9 \(KILL\) at .*\n"
                         r"  worker 1 says : UNAVAILABLE: step \d+: worker 0 .* is lost")
        self.check_same_bits()

    def test_workers_killed_at_random_times(self):
        for collective in ("auto", "tcp"):
            with self.subTest(collective):
                self.setUp()
                self.check_random_kills(collective)

    def check_random_kills(self, collective):
        generator = random.Random(11)
        job = self.start(f"--max_restarts={KILLS}", "--restart_pause=10ms", collective=collective,
                         RESTARTS_TEST=self.id())
        kills = 0
        while kills < KILLS and job.poll() is None:
            time.sleep(generator.uniform(0.05, 0.6))
            workers = self.workers()
            if workers:
                send_signal(signal.SIGKILL, generator.choice(sorted(workers.values())))
                kills += 1
        self.assertGreater(kills, 0)
        result = self.finish(job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_same_bits()

    def test_sigterm_to_one_worker_stops_all_after_the_same_step(self):
        for rank in (0, 1):
            with self.subTest(f"worker {rank}"):
                self.setUp()
                job = self.start(more=[ENDLESS], RESTARTS_TEST=self.id())
                self.wait_for_step(100)
                send_signal(signal.SIGTERM, self.workers()[rank])
                result = self.finish(job)
                self.assertEqual(result.returncode, PREEMPTED, result.stderr)
                self.assertRegex(result.stderr, r"stopped by SIGTERM after step \d+")
                self.check_stop_is_reported(result)
                self.check_goes_on()

    def check_stop_is_reported(self, result):
        self.assertRegex(result.stderr, r"mirrorflow launch: stopped after 00:\d\d:\d\d, "
                                        r"first worker [01] \(pid \d+\) with exit code 75; run "
                                        r"the same command to continue\n")
        self.assertNotIn("FAILED", result.stderr)

    def test_stopped_worker_is_started_again_as_often_as_there_is_progress(self):
        job = self.start("--max_restarts=1", "--restart_pause=10ms", more=[ENDLESS],
                         RESTARTS_TEST=self.id())
        for _ in range(3):
            self.wait_for_step(self.last_saved() + 100)
            stopped = self.workers()[1]
            send_signal(signal.SIGTERM, stopped)
            programs.wait_until(lambda: self.workers().get(1, stopped) != stopped, "the restart")
        self.wait_for_step(self.last_saved() + 100)
        job.send_signal(signal.SIGTERM)
        result = self.finish(job)
        self.assertEqual(result.returncode, PREEMPTED, result.stderr)
        self.check_stop_is_reported(result)
        self.assertEqual(result.stderr.count("restart 1 of at most 1 since step"), 3, result.stderr)
        self.check_goes_on()

    def test_signal_to_the_launcher_stops_the_job_and_does_not_restart_it(self):
        for number, code in ((signal.SIGTERM, PREEMPTED), (signal.SIGINT, INTERRUPTED)):
            with self.subTest(number.name):
                self.setUp()
                job = self.start("--max_restarts=5", more=[ENDLESS])
                self.wait_for_step(100)
                job.send_signal(number)
                result = self.finish(job)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertRegex(result.stderr, rf"stopped by {number.name} after step \d+")
                self.assertNotIn("restart", result.stderr)
                self.assertNotIn("FAILED", result.stderr)
                self.check_goes_on()

    def test_second_signal_ends_the_job_at_once(self):
        for number in (signal.SIGINT, signal.SIGTERM):  # SIGTERM twice is one request
            with self.subTest(number.name):
                self.setUp()
                job = self.start(MIRRORFLOW_FAILPOINTS="checkpoint/rename=hang@0#3")
                self.wait_for_step(200)
                time.sleep(0.2)  # the third save hangs
                job.send_signal(number)
                time.sleep(0.2)
                self.assertIsNone(job.poll())
                if number == signal.SIGTERM:
                    job.send_signal(number)
                    time.sleep(0.2)
                    self.assertIsNone(job.poll())
                job.send_signal(number)
                result = self.finish(job)
                self.assertEqual(result.returncode, 128 + number, result.stderr)
                self.check_goes_on()

    def test_sigterm_to_the_whole_tree_is_one_request(self):
        # slurmstepd and systemd send SIGTERM to all processes of a job.
        for order in (1, -1):
            with self.subTest(order):
                self.setUp()
                job = self.start(more=[ENDLESS], RESTARTS_TEST=self.id())
                self.wait_for_step(100)
                tree = tree_of(job.pid)
                self.assertGreaterEqual(len(tree), 1 + 2 + 2)
                send_signal(signal.SIGTERM, *tree[::order])
                result = self.finish(job)
                self.assertEqual(result.returncode, PREEMPTED, result.stderr)
                self.assertRegex(result.stderr, r"stopped by SIGTERM after step \d+")
                self.check_goes_on()

    def test_sigterm_to_all_processes_on_the_launchers_host_stops_workers_on_others(self):
        # A remote shell that forwards what both sides send, like ssh.
        self.write("rsh", "#!/bin/sh\nshift\ncat | \"$@\" | cat\n")
        (self.root / "rsh").chmod(0o755)
        for order in (1, -1):
            with self.subTest(order):
                self.setUp()
                job = self.start("--hosts=a=127.0.0.1,b=127.0.0.1",
                                 f"--rsh={self.root}/rsh {{host}}", more=[ENDLESS])
                self.wait_for_step(100)
                shells = [p for p in tree_of(job.pid) if name_of(p) in ("rsh", "cat")]
                self.assertEqual(len(shells), 2 * 3)
                send_signal(signal.SIGTERM, *[job.pid, *shells][::order])
                result = self.finish(job)
                self.assertEqual(result.returncode, PREEMPTED, result.stderr)
                self.assertRegex(result.stderr, r"stopped by SIGTERM after step \d+")
                self.assertIn("with exit code 75; run the same command to continue", result.stderr)

    def test_single_process_stops_in_the_same_way(self):
        command = [*self.train, ENDLESS, "--replicas=2", *SAVE]
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

    def launch_script(self, *arguments):
        """Runs a script, the last of `arguments`, as several workers."""
        *flags, script = arguments
        return subprocess.run([MIRRORFLOW, "launch", *flags, "--", "sh", "-c", script], cwd=self.root,
                              text=True, capture_output=True, timeout=SECONDS, check=False)

    def test_workers_that_save_are_not_disturbed_when_one_has_stopped(self):
        script = "[ $RANK = 1 ] && exit 75; trap 'exit 9' TERM; sleep {} & wait; exit 75"
        result = self.launch_script("-n", "2", script.format(1))
        self.assertEqual(result.returncode, PREEMPTED, result.stderr)
        self.assertIn("launch: stopped after", result.stderr)
        # The launcher ends a worker that does not stop within the grace period.
        begin = time.monotonic()
        result = self.launch_script("-n", "2", "--grace=300ms", script.format(60))
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(result.returncode, PREEMPTED, result.stderr)
        self.assertIn("FAILED", result.stderr)
        self.assertIn("first failure : worker 1", result.stderr)

    def test_each_attempt_has_its_own_job(self):
        # Worker 1 fails once worker 0 has printed the job.
        result = self.launch_script(
            "-n", "2", "--max_restarts=1",
            'echo "$MIRRORFLOW_RESTART_COUNT $MIRRORFLOW_JOB"; [ $RANK = 0 ] && touch said; '
            "[ $RANK$MIRRORFLOW_RESTART_COUNT = 10 ] && "
            "{ until [ -e said ]; do sleep 0.01; done; exit 7; }; "
            "sleep $((1 - MIRRORFLOW_RESTART_COUNT))")
        self.assertEqual(result.returncode, 0, result.stderr)
        jobs = {re.sub(r"^\[worker .\] ", "", line) for line in result.stdout.splitlines()}
        self.assertEqual(result.stdout.count("\n"), 4, result.stdout)
        self.assertEqual({job.split()[0] for job in jobs}, {"0", "1"})
        self.assertEqual(len({job.split()[-1] for job in jobs}), 2, jobs)
        self.assertEqual(len(jobs), 2, jobs)
        (self.root / "said").unlink()

    def test_restarted_workers_are_told_why(self):
        # Worker 1 fails once worker 0 has printed the restart reason.
        say = 'echo "why: $MIRRORFLOW_RESTART_REASON"; [ $RANK = 0 ] && touch said; '
        fail = ("[ $RANK$MIRRORFLOW_RESTART_COUNT = 10 ] && "
                "{{ until [ -e said ]; do sleep 0.01; done; {}; }}; "
                "sleep $((1 - MIRRORFLOW_RESTART_COUNT))")
        message = """printf %s '{"code": "INTERNAL", "message": "two\\nlines"}'"""
        for failure, reason in (("kill -9 $$", "signal 9 (KILL)"), ("exit 7", "exit code 7"),
                                (f"{message} > $MIRRORFLOW_ERROR_FILE && exit 7",
                                 "exit code 7: INTERNAL: two lines"),
                                ("exit 75", "exit code 75")):
            for flags, worker in ((["-n", "2"], "worker 1"),
                                  (["--hosts=a=127.0.0.1,b=127.0.0.1", "--rsh=env HOST={host}"],
                                   "worker 1 on host b")):
                with self.subTest(f"{worker}: {failure}"):
                    (self.root / "said").unlink(missing_ok=True)
                    result = self.launch_script(*flags, "--max_restarts=1", "--show=0",
                                                say + fail.format(failure))
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertEqual(result.stdout, "[worker 0] why: \n"
                                                    f"[worker 0] why: {worker}: {reason}\n")


if __name__ == "__main__":
    programs.main()
