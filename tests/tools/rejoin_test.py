#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills workers of `mirrorflow launch --rejoin_timeout`, which restarts only the lost worker."""

import os
import random
import re
import signal
import subprocess
import time

import programs
import restarts
from processes import parent_of, send_signal
from programs import BAD_INPUT, MIRRORFLOW, USAGE
from restarts import PREEMPTED, SAVE, SECONDS

WORKERS = 4
KILLS = int(os.environ.get("MIRRORFLOW_KILLS", "4"))
ALONE = "; restarts alone, "
ALL = "mirrorflow launch: restart "
# A worker that kills itself, next to one that waits for it.
KILLED = 'if [ "$RANK" = 1 ]; then kill -KILL $$; fi; exec sleep 60'
# Runs a program whose worker 1 kills itself when it restarts.
LOST_AGAIN = ["sh", "-c", 'if [ "$RANK $MIRRORFLOW_RESTART_COUNT" = "1 1" ]; then '
                          'kill -KILL $$; fi; exec "$@"', "sh"]
HOSTS = "--hosts=a=127.0.0.1:2,b=127.0.0.1:2"
REMOTE_SHELL = "--rsh=env REJOIN_HOST={host}"


class RejoinTest(restarts.RestartsTestCase):

    STEPS = 1  # steps of the undisturbed run; each test repeats it with a different number

    def launch(self, *arguments):
        # A file holds any number of lines, even before the test reads them.
        with open(self.root / "errors", "w", encoding="utf-8") as errors:
            return subprocess.Popen(
                [MIRRORFLOW, "launch", *arguments], cwd=self.root, text=True,
                stdout=subprocess.PIPE, stderr=errors,
                env={**os.environ, "REJOIN_TEST": self.id()})

    def errors(self):
        return (self.root / "errors").read_text(errors="replace")

    def start(self, *flags, collective="auto", steps=100_000_000, prefix=()):
        """Starts training. `prefix` comes before its command."""
        return self.launch("-n", str(WORKERS), *flags, "--", *prefix, *self.train,
                           f"--steps={steps}", "--replicas=1", f"--collective={collective}", *SAVE)

    def finish(self, job):
        out, _ = job.communicate(timeout=SECONDS)
        return subprocess.CompletedProcess(job.args, job.returncode, out, self.errors())

    def processes(self):
        """Returns the processes of this test case that are not zombies, with their variables."""
        found = {}
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{process}/environ", encoding="utf-8") as file:
                    variables = dict(v.split("=", 1) for v in file.read().split("\0") if "=" in v)
            except OSError:
                continue
            if variables.get("REJOIN_TEST") == self.id():
                found[int(process)] = variables
        return found

    def workers(self):
        """Returns the worker processes of this test case, by rank, with their start times."""
        found = {}
        for process, variables in self.processes().items():
            try:
                with open(f"/proc/{process}/stat", encoding="utf-8") as file:
                    begun = file.read().rpartition(")")[2].split()[19]
                executable = os.readlink(f"/proc/{process}/exe")
            except OSError:
                continue
            if "RANK" in variables and os.path.basename(executable) == "fashion_mnist":
                found[int(variables["RANK"])] = (process, begun)
        return found

    def check_bits(self, collective):
        """Checks that training continues for some steps with the results of an undisturbed run."""
        steps = self.last_saved() + 150
        result = self.finish(self.start(collective=collective, steps=steps))
        self.assertEqual(result.returncode, 0, result.stderr)
        disturbed = {name: (self.root / f"part.{name}").read_bytes()
                     for name in ("log", "safetensors")}
        self.setUp()
        result = self.finish(self.start(collective=collective, steps=steps))
        self.assertEqual(result.returncode, 0, result.stderr)
        for name, contents in disturbed.items():
            self.assertEqual(contents, (self.root / f"part.{name}").read_bytes(), name)

    def check_survives_kills(self, collective):
        job = self.start(f"--max_restarts={KILLS}", "--restart_pause=1ms", "--rejoin_timeout=60s",
                         collective=collective)
        kills = [0] * WORKERS
        self.wait_for_step(100)
        first = self.workers()
        self.assertEqual(len(first), WORKERS)
        for i in range(KILLS):
            # Progress resets the backoff, so the next pause is short again.
            if i % 5 == 4:
                self.wait_for_step(self.last_saved() + 1)
            time.sleep(random.uniform(0, 0.6))  # it is joining, waiting, saving, or in a step
            before = self.workers()
            victim = random.choice(list(before))
            send_signal(signal.SIGKILL, before[victim][0])
            kills[victim] += 1
            programs.wait_until(lambda: self.workers().get(victim, before[victim]) != before[victim],
                                f"another process of worker {victim}")
            after = self.workers()
            for rank in before:
                if rank != victim:
                    self.assertEqual(after.get(rank), before[rank],
                                     f"worker {rank}, kills {kills}: {self.errors()[-4000:]}")
        self.wait_for_step(self.last_saved() + 200)
        after = self.workers()
        for rank in range(WORKERS):
            self.assertEqual(after[rank] == first[rank], kills[rank] == 0, f"worker {rank}")
        job.send_signal(signal.SIGTERM)
        result = self.finish(job)
        self.assertEqual(result.returncode, PREEMPTED, result.stderr)
        alone = re.findall(r"worker (\d): signal 9 \(KILL\)" + ALONE, result.stderr)
        self.assertEqual([alone.count(str(rank)) for rank in range(WORKERS)], kills, result.stderr)
        self.assertNotIn(ALL, result.stderr)
        self.check_bits(collective)

    def test_survives_kills_with_shared_memory(self):
        self.check_survives_kills("auto")

    def test_survives_kills_over_tcp(self):
        self.check_survives_kills("tcp")

    def test_worker_that_hangs_rejoins_with_its_process(self):
        job = self.launch("-n", "2", "--rejoin_timeout=60s", "--", *self.train, "--replicas=1",
                          "--steps=100000000", "--heartbeat_timeout=1s", *SAVE)
        self.wait_for_step(100)
        before = self.workers()
        send_signal(signal.SIGSTOP, before[1][0])
        programs.wait_until(lambda: "waiting up to 1m for all workers" in self.errors(),
                            "the other worker to take it for lost")
        send_signal(signal.SIGCONT, before[1][0])
        self.wait_for_step(self.last_saved() + 200)
        self.assertEqual(self.workers(), before)
        job.send_signal(signal.SIGTERM)
        result = self.finish(job)
        self.assertEqual(result.returncode, PREEMPTED, result.stderr)
        self.assertNotIn(ALONE, result.stderr)

    def test_job_without_restarts_ends(self):
        job = self.start("--rejoin_timeout=500ms", "--max_restarts=0")
        self.wait_for_step(100)
        send_signal(signal.SIGKILL, self.workers()[2][0])
        result = self.finish(job)
        self.assertEqual(result.returncode, 128 + signal.SIGKILL, result.stderr)
        self.assertNotIn(ALONE, result.stderr)

    def run_script(self, *flags):
        """Runs a script, the last of `flags`, as two workers."""
        *flags, script = flags
        return self.finish(self.launch("-n", "2", "--rejoin_timeout=60s", "--restart_pause=1ms",
                                       *flags, "--", "sh", "-c", script))

    def check_all_start_again(self, worker_0):
        """Loses worker 1, whose next process never ends. Worker 0 then runs the script."""
        result = self.run_script(
            "--max_restarts=2", 'case "$RANK $MIRRORFLOW_RESTART_COUNT" in '
            f'"0 0") until [ -e again ]; do sleep 0.01; done; rm again; {worker_0};; '
            '"1 0") kill -KILL $$;; '
            '"1 1") touch again; exec sleep 60;; '
            'esac')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count(ALONE), 1, result.stderr)
        self.assertEqual(result.stderr.count(ALL), 1, result.stderr)

    def test_all_start_again_if_they_do_not_wait(self):
        # Worker 0 ends like the workers of a program that does not use RunWithRejoin.
        self.check_all_start_again(
            'echo \'{"message": "worker 1 is lost", "cause": "another worker"}\' '
            '> $MIRRORFLOW_ERROR_FILE; exit 4')

    def test_worker_lost_after_its_work_starts_all_again(self):
        self.check_all_start_again("exit 0")

    def test_slow_last_worker_is_waited_for(self):
        result = self.run_script(
            "--max_restarts=1", 'case "$RANK $MIRRORFLOW_RESTART_COUNT" in '
            '"0 0") until [ -e again ]; do sleep 0.01; done; rm again;; '
            '"1 0") kill -KILL $$;; '
            '"1 1") touch again; exec sleep 1;; '
            'esac')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count(ALONE), 1, result.stderr)
        self.assertNotIn(ALL, result.stderr)

    def test_workers_killed_at_once_count_as_one_restart(self):
        job = self.start("--rejoin_timeout=60s", "--max_restarts=1")
        self.wait_for_step(100)
        before = self.workers()
        for rank in (0, 2):
            send_signal(signal.SIGKILL, before[rank][0])
        self.wait_for_step(self.last_saved() + 200)
        after = self.workers()
        for rank in range(WORKERS):
            self.assertEqual(after[rank] == before[rank], rank not in (0, 2), f"worker {rank}")
        job.send_signal(signal.SIGTERM)
        result = self.finish(job)
        self.assertEqual(result.returncode, PREEMPTED, result.stderr)
        self.assertEqual(result.stderr.count(ALONE + "1 of at most 1"), 2, result.stderr)
        self.assertNotIn(ALL, result.stderr)
        self.check_bits("auto")

    def test_lost_remote_shell_restarts_all(self):
        job = self.start(HOSTS, REMOTE_SHELL, "--rejoin_timeout=60s", "--max_restarts=1",
                         "--restart_pause=1ms")
        self.wait_for_step(100)
        before = self.workers()
        # The remote shell has become the supervisor of its host.
        [shell] = [process for process, variables in self.processes().items()
                   if variables.get("REJOIN_HOST") == "b" and parent_of(process) == job.pid]
        send_signal(signal.SIGKILL, shell)
        programs.wait_until(lambda: ALL in self.errors(), "the restart of all workers")
        self.wait_for_step(self.last_saved() + 200)
        after = self.workers()
        self.assertEqual(len(after), WORKERS)
        self.assertFalse(set(before.values()) & set(after.values()), "workers that still run")
        job.send_signal(signal.SIGTERM)
        result = self.finish(job)
        self.assertEqual(result.returncode, PREEMPTED, result.stderr)
        self.assertNotIn(ALONE, result.stderr)
        self.assertEqual(result.stderr.count(ALL), 1, result.stderr)
        self.check_bits("auto")

    def test_stop_while_workers_wait_ends_them_all(self):
        # The second restart of worker 1 is 30 s away.
        job = self.start("--rejoin_timeout=60s", "--max_restarts=9", "--restart_pause=60s",
                         prefix=LOST_AGAIN)
        self.wait_for_step(100)
        send_signal(signal.SIGKILL, self.workers()[1][0])
        waiting = "waiting up to 1m for all workers"
        programs.wait_until(lambda: self.errors().count(ALONE) == 2 and
                            self.errors().count(waiting) >= WORKERS - 1, "the others to wait")
        job.send_signal(signal.SIGTERM)
        result = self.finish(job)
        self.assertEqual(result.returncode, PREEMPTED, result.stderr)
        self.assertNotIn(ALL, result.stderr)
        self.assertEqual(self.processes(), {})

    def test_stop_while_the_lost_worker_starts_again_ends_them_all(self):
        job = self.start("--rejoin_timeout=60s", "--max_restarts=9")
        self.wait_for_step(100)
        send_signal(signal.SIGKILL, self.workers()[1][0])
        programs.wait_until(lambda: ALONE in self.errors(), "the restart")
        job.send_signal(signal.SIGTERM)
        result = self.finish(job)
        self.assertEqual(result.returncode, PREEMPTED, result.stderr)
        self.assertNotIn(ALL, result.stderr)
        self.assertEqual(self.processes(), {})

    def test_final_errors_are_not_repeated(self):
        for code in (USAGE, BAD_INPUT):
            result = self.run_script("--max_restarts=9",
                                     f'if [ "$RANK" = 1 ]; then exit {code}; fi; exec sleep 60')
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertNotIn(ALONE, result.stderr)

    def test_lost_worker_starts_again_as_often_as_allowed(self):
        result = self.run_script("--max_restarts=2", KILLED)
        self.assertEqual(result.returncode, 128 + signal.SIGKILL, result.stderr)
        self.assertEqual(result.stderr.count(ALONE), 2, result.stderr)
        self.assertNotIn(ALL, result.stderr)

    def test_stop_in_the_pause_of_a_lost_worker(self):
        job = self.launch("-n", "2", "--rejoin_timeout=60s", "--max_restarts=9",
                          "--restart_pause=60s", "--", "sh", "-c", KILLED)
        programs.wait_until(lambda: self.errors().count(ALONE) == 2, "the second loss")
        job.send_signal(signal.SIGTERM)
        result = self.finish(job)
        self.assertEqual(result.returncode, PREEMPTED, result.stderr)

    def test_workers_get_the_timeout(self):
        result = self.finish(self.launch("-n", "1", "--rejoin_timeout=90s", "--", "sh", "-c",
                                         "echo $MIRRORFLOW_REJOIN_TIMEOUT"))
        self.assertEqual(result.stdout, "[worker 0] 1m30s\n", result.stderr)


if __name__ == "__main__":
    programs.main()
