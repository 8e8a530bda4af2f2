#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs elastic jobs, `mirrorflow launch -n MIN:MAX`, on hosts that come and go. Both hosts are this
machine, behind a remote shell that fails for HOST while the file HOST.fails exists, and hangs while
HOST.hangs exists."""

import os
import pathlib
import signal
import subprocess
import time

import programs
from processes import send_signal

SECONDS = 90  # time limit; a job takes less than 20 s
STEPS = 1500
TRAIN = [*programs.TRAIN_TINY, "--model=mlp", "--global_batch_size=20", f"--steps={STEPS}"]
HOSTS = "--hosts=a=127.0.0.1:2,b=127.0.0.1:2"
REMOTE_SHELL = """#!/bin/sh
cd "$(dirname "$0")"
host=$1; shift
[ -e $host.fails ] && echo >> $host.tries && echo connecting >&2 && echo "no route to $host" >&2 && exit 255
[ -e $host.hangs ] && exec sleep 68.5
ELASTIC_HOST=$host exec "$@"
"""
SHOW = ["sh", "-c", "echo $ELASTIC_HOST $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
                    "$MIRRORFLOW_WORKER_INDEX/$MIRRORFLOW_NUM_WORKERS; echo $TF_CONFIG >&2"]


class ElasticTest(programs.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("rsh", REMOTE_SHELL)
        (cls.root / "rsh").chmod(0o755)

    def setUp(self):
        for state in ("fails", "hangs", "tries"):
            for path in self.root.glob(f"*.{state}"):
                path.unlink()

    def start(self, *arguments):
        return subprocess.Popen(
            [programs.MIRRORFLOW, "launch", HOSTS, f"--rsh={self.root}/rsh {{host}}", *arguments],
            cwd=self.root, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "ELASTIC_TEST": self.id()})

    def finish(self, job):
        out, err = job.communicate(timeout=SECONDS)
        return subprocess.CompletedProcess(job.args, job.returncode, out, err)

    def launch(self, *arguments):
        return self.finish(self.start(*arguments))

    def processes(self):
        """Returns the processes behind the remote shell, with their variables."""
        found = {}
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                text = pathlib.Path(f"/proc/{process}/environ").read_text(encoding="utf-8")
            except OSError:
                continue
            variables = dict(v.split("=", 1) for v in text.split("\0") if "=" in v)
            if variables.get("ELASTIC_TEST") == self.id() and "ELASTIC_HOST" in variables:
                found[int(process)] = variables
        return found

    def kill(self, host, rank=None):
        """Kills every process of a host, or only the worker `rank`."""
        for process, variables in self.processes().items():
            if variables["ELASTIC_HOST"] == host and rank in (None, variables.get("RANK")):
                send_signal(signal.SIGKILL, process)

    def step(self):
        """Returns the step of the newest checkpoint."""
        return max((int(p.name[5:]) for p in (self.root / "saved").glob("step-*")), default=0)

    def wait_for_workers(self, size):
        """Waits until `size` workers are running and have then saved a checkpoint."""
        sizes = {str(rank): str(size) for rank in range(size)}
        programs.wait_until(
            lambda: {v["RANK"]: v["WORLD_SIZE"] for v in self.processes().values()
                     if "RANK" in v} == sizes, f"{size} workers")
        begin = self.step()
        programs.wait_until(lambda: self.step() > begin, "a step")

    def losses(self, name):
        return [line.split() for line in (self.root / name).read_text().splitlines()]

    def test_training_goes_on_with_the_hosts_that_are_left(self):
        job = self.start("-n", "2:4", "--max_restarts=5", "--", programs.FASHION_MNIST, *TRAIN,
                         "--replicas=1", "--checkpoint_dir=saved", "--checkpoint_every=50",
                         "--loss_log=part.log")
        self.wait_for_workers(4)
        self.write("b.fails", "")
        self.kill("b")
        self.wait_for_workers(2)
        (self.root / "b.fails").unlink()
        self.kill("a", rank="1")
        self.wait_for_workers(4)
        self.assertLess(self.step(), STEPS, "training ended before the hosts changed")
        result = self.finish(job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("its supervisor has ended", result.stderr)
        self.assertIn("mirrorflow launch: 2 of at most 4 workers; host b does not answer "
                      "(no route to b)\n", result.stderr)
        self.assertEqual(result.stderr.count("mirrorflow launch: restart "), 2, result.stderr)
        self.assertEqual(result.stderr.count("of at most 4 workers"), 1, result.stderr)

        subprocess.run([programs.FASHION_MNIST, *TRAIN, "--replicas=1", "--loss_log=whole.log"],
                       cwd=self.root, check=True, timeout=SECONDS, capture_output=True)
        whole, part = self.losses("whole.log"), self.losses("part.log")
        self.assertEqual([step for step, _ in part], [step for step, _ in whole])
        for (step, a), (_, b) in zip(part, whole, strict=True):
            self.assertLess(abs(float(a) - float(b)), 1e-4 * float(b), f"step {step}")

    def test_workers_of_the_hosts_that_answer_are_numbered_from_zero(self):
        self.write("a.fails", "")
        begin = time.monotonic()
        result = self.launch("-n", "1:4", "--log_dir=logs", "--show=1", "--", *SHOW)
        self.assertLess(time.monotonic() - begin, 4, "waited for a host that cannot answer")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "[worker 1] b 1/2 1/2 1/2\n")
        self.assertRegex(result.stderr, r"\[worker 1\] .*\"worker\":\[\"127.0.0.1:\d+\","
                                        r"\"127.0.0.1:\d+\"\]}.*\"index\":1")
        self.assertIn("2 of at most 4 workers; host a does not answer (no route to a)\n",
                      result.stderr)
        logs = self.root / "logs"
        self.assertEqual((logs / "worker_0.out").read_text(), "b 0/2 0/2 0/2\n")
        self.assertEqual((logs / "worker_2.out").read_text(), "")

    def test_silent_host_is_waited_for_only_briefly(self):
        self.write("b.hangs", "")
        begin = time.monotonic()
        result = self.launch("-n", "1:4", "--max_restarts=1", "--", "sh", "-c",
                             f"rm -f {self.root}/b.hangs; echo $RANK/$WORLD_SIZE; "
                             "sleep 0.5; exit $((1 - MIRRORFLOW_RESTART_COUNT))")
        self.assertLess(time.monotonic() - begin, 15)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), sorted(
            [f"[worker {r}] {r}/2" for r in range(2)] + [f"[worker {r}] {r}/4" for r in range(4)]))
        self.assertIn("2 of at most 4 workers; host b does not answer\n", result.stderr)
        self.assertNotRegex(result.stderr, r"(failed|failure|us) +:.*host b")
        listing = subprocess.run(["ps", "-eo", "args"], text=True, capture_output=True, check=True)
        self.assertNotIn("sleep 68.5", listing.stdout.splitlines())

    def test_too_few_hosts_miss_the_start_timeout(self):
        for state, why in (("fails", r" \(no route to b\)"), ("hangs", "")):
            with self.subTest(state):
                self.setUp()
                self.write(f"b.{state}", "")
                result = self.launch("-n", "3:4", "--start_timeout=1500ms", "--", "true")
                self.assertEqual(result.returncode, 124, result.stderr)
                self.assertRegex(
                    result.stderr, r"mirrorflow launch: 2 of at least 3 workers started within "
                                   rf"1.5s; missing: 2 on host b{why}, 3 on host b{why}\n")
                self.assertNotIn("FAILED", result.stderr)

    def test_host_that_is_needed_is_asked_again(self):
        self.write("b.fails", "")
        job = self.start("-n", "3:4", "--", *SHOW)
        tries = self.root / "b.tries"
        programs.wait_until(lambda: tries.exists() and tries.stat().st_size >= 2, "a second try")
        (self.root / "b.fails").unlink()
        result = self.finish(job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 4)
        self.assertNotIn("of at most", result.stderr)

    def test_host_that_fails_again_and_again_is_left_out(self):
        fails_on_b = "echo $ELASTIC_HOST; [ $ELASTIC_HOST = a ] || exit 9; sleep 60"
        ends_without_b = "[ $WORLD_SIZE = 4 ] || exit 0; "
        flags = ["--max_restarts=5", "--restart_pause=10ms"]
        result = self.launch("-n", "2:4", *flags, "--exclude_after=2", "--", "sh", "-c",
                             ends_without_b + fails_on_b)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("restart 2 of at most 5", result.stderr)
        self.assertNotIn("restart 3", result.stderr)
        self.assertIn("without host b", result.stderr)
        # Without host b, too few hosts would be left.
        result = self.launch("-n", "3:4", *flags, "--exclude_after=2", "--", "sh", "-c", fails_on_b)
        self.assertEqual(result.returncode, 9, result.stderr)
        self.assertIn("host b is used again", result.stderr)
        result = self.launch("-n", "4", *flags, "--exclude_after=2", "--", "true")
        self.assertEqual(result.returncode, programs.USAGE, result.stderr)
        self.assertIn("--exclude_after", result.stderr)

    def test_host_of_a_hanging_worker_is_left_out(self):
        # The others report that another worker is at fault.
        script = ("[ $WORLD_SIZE = 4 ] || exit 0; [ $ELASTIC_HOST = b ] && exec sleep 60; "
                  '''echo '{"message": "late", "cause": "another worker"}' > '''
                  "$MIRRORFLOW_ERROR_FILE; exit 4")
        result = self.launch("-n", "2:4", "--max_restarts=1", "--restart_pause=10ms",
                             "--exclude_after=1", "--", "sh", "-c", script)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("without host b", result.stderr)

    def test_job_without_an_excluded_host_asks_the_others_again(self):
        script = ("[ $WORLD_SIZE = 4 ] || exit 0; [ $ELASTIC_HOST = b ] || exec sleep 60; "
                  f"touch {self.root}/a.fails; exit 9")
        job = self.start("-n", "2:4", "--max_restarts=1", "--restart_pause=10ms",
                         "--exclude_after=1", "--", "sh", "-c", script)
        tries = self.root / "a.tries"
        programs.wait_until(lambda: job.poll() is not None or tries.exists() and
                            tries.stat().st_size >= 3, "a second try")
        (self.root / "a.fails").unlink()
        result = self.finish(job)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("without host b", result.stderr)

    def test_progress_counts_even_if_its_host_is_lost(self):
        job = self.start("-n", "4", "--max_restarts=1", "--restart_pause=10ms", "--", "sh", "-c",
                         "[ $RANK = 0 ] || exec sleep 60; "
                         "echo $((MIRRORFLOW_RESTART_COUNT + 5)) > $MIRRORFLOW_PROGRESS_FILE; "
                         "echo saved; exec sleep 60")
        for _ in range(3):
            self.assertEqual(job.stdout.readline(), "[worker 0] saved\n")
            self.kill("a")
        job.send_signal(signal.SIGTERM)
        result = self.finish(job)
        for step in (5, 6):
            self.assertIn(f"restart 1 of at most 1 since step {step} was saved", result.stderr)

    def test_interruption_does_not_wait_for_silent_hosts(self):
        self.write("b.hangs", "")
        job = self.start("-n", "3:4", "--", "true")
        time.sleep(0.5)
        begin = time.monotonic()
        job.send_signal(signal.SIGTERM)
        result = self.finish(job)
        self.assertEqual(result.returncode, 75, result.stderr)
        self.assertLess(time.monotonic() - begin, 5)

    def test_all_workers_of_this_machine_are_started(self):
        result = subprocess.run([programs.MIRRORFLOW, "launch", "-n", "1:3", "--", *SHOW],
                                text=True, capture_output=True, timeout=SECONDS, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), 3)

    def test_wrong_numbers_of_workers_are_usage_errors(self):
        for n, part in (("3:2", "got 3:2"), ("0:2", "got 0:2"), ("0", "got 0"), ("-1:2", "got"),
                        ("two", "got 'two'"), ("2:", "got '2:'"), (":2", "got ':2'"),
                        ("1:2:3", "got '1:2:3'"), ("1:5", "expected 1 to 4, got 5")):
            with self.subTest(n):
                result = self.launch(f"-n={n}", "--", "true")
                self.assertEqual(result.returncode, programs.USAGE, result.stderr)
                self.assertRegex(result.stderr, rf"^ERROR INVALID_ARGUMENT -n: .*{part}")


if __name__ == "__main__":
    programs.main()
