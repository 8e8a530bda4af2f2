#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs as several workers with `mirrorflow launch`."""

import array
import fcntl
import os
import pathlib
import re
import signal
import subprocess
import termios
import time
import unittest

import programs

SECONDS = 60  # time limit; a run takes less than 10 s
# A process that ignores SIGTERM and has children; `mark` identifies them all.
STUBBORN = "trap '' TERM; sleep {mark} & sleep {mark} & wait; wait; sleep {mark}"


def unread(pipe):
    """Returns how many unread bytes the pipe holds."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, count)
    return count[0]


def commands_with(mark):
    """Returns the command lines of all processes that contain `mark`, except this process's."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode().replace("\0", " ")
        except OSError:
            continue
        if mark in command:
            found.append(command)
    return found


class LaunchTest(programs.ProgramTest):

    def start(self, *arguments, environment=None, **options):
        return subprocess.Popen(
            [programs.MIRRORFLOW, "launch", *arguments], cwd=self.root, text=True,
            env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, **options)

    def launch(self, *arguments, **options):
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=SECONDS)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def wait_for_sleepers(self, mark, count):
        """Waits for processes that run `sleep`: a shell loses a SIGINT while it starts one."""
        def has_all():
            return sum(c.startswith("sleep") for c in commands_with(mark)) == count
        programs.wait_until(has_all, f"{count} times sleep {mark}")

    def test_lines_come_whole_after_the_number_of_their_worker(self):
        script = ("for i in 1 2 3; do printf 'a%s ' $RANK; sleep 0.05; printf 'b%s\\n' $i; done; "
                  "echo error of $RANK >&2; printf 'no newline'")
        result = self.launch("-n", "3", "--", "sh", "-c", script)
        self.assertEqual(result.returncode, 0, result.stderr)
        expected = [f"[worker {w}] {line}" for w in range(3)
                    for line in (f"a{w} b1", f"a{w} b2", f"a{w} b3", "no newline")]
        self.assertEqual(sorted(result.stdout.splitlines()), sorted(expected))
        self.assertEqual(sorted(result.stderr.splitlines()),
                         [f"[worker {w}] error of {w}" for w in range(3)])

    def test_workers_are_told_about_their_cluster(self):
        names = ("MIRRORFLOW_NUM_WORKERS MIRRORFLOW_WORKER_INDEX MIRRORFLOW_LOCAL_RANK RANK "
                 "WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR CUDA_VISIBLE_DEVICES").split()
        script = ";".join(f"echo {n}=${n}" for n in names) + ";echo $TF_CONFIG;pwd;echo $OWN"
        result = self.launch("-n", "2", "--show=1", "--one_gpu_per_process", "--", "sh", "-c",
                             script, environment={"OWN": "mine", "CUDA_VISIBLE_DEVICES": "3,5"})
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [l.removeprefix("[worker 1] ") for l in result.stdout.splitlines()]
        self.assertEqual(lines[:len(names)], [f"{n}={v}" for n, v in zip(
            names, ("2", "1", "1", "1", "2", "1", "2", "127.0.0.1", "5"), strict=True)])
        self.assertRegex(lines[-3], r'"worker":\["127.0.0.1:\d+","127.0.0.1:\d+"\].*"index":1')
        self.assertEqual(lines[-2:], [str(self.root), "mine"])

    def test_job_ends_as_the_first_worker_that_fails(self):
        for failure, code, how in (("exit 7", 7, "exit code 7"),
                                   ("kill -9 $$", 137, "signal 9 (KILL)")):
            with self.subTest(failure):
                begin = time.monotonic()
                result = self.launch(
                    "-n", "3", "--", "sh", "-c",
                    f"[ $RANK = 1 ] && echo the last words && {failure}; sleep 61.5")
                self.assertLess(time.monotonic() - begin, 10)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertRegex(result.stderr, r"mirrorflow launch: FAILED after 00:00:0\d")
                self.assertRegex(result.stderr,
                                 rf"first failure : worker 1 \(pid \d+\) {re.escape(how)} at ")
                self.assertIn("last output   : (1 lines of worker 1)\n    the last words",
                              result.stderr)
                self.assertIn("stopped by us : workers 0, 2", result.stderr)
                self.assertEqual(commands_with("sleep 61.5"), [])

    def test_program_that_cannot_be_run_is_reported(self):
        result = self.launch("-n", "2", "--", "./no-such-program")
        self.assertEqual(result.returncode, 127, result.stderr)
        self.assertIn("'./no-such-program': No such file", result.stderr)

    def test_stubborn_workers_are_killed_after_the_grace(self):
        mark = "61.25"
        result = self.launch("-n", "2", "--grace=300ms", "--", "sh", "-c",
                             f"[ $RANK = 1 ] && sleep 0.5 && exit 3; {STUBBORN.format(mark=mark)}")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(commands_with(f"sleep {mark}"), [])

    def test_descendants_end_with_their_worker(self):
        mark = "62.25"
        result = self.launch("-n", "1", "--", "sh", "-c",
                             f"setsid sleep {mark} > /dev/null 2>&1 & (sleep {mark} &) ; exit 0")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(commands_with(f"sleep {mark}"), [])

    def test_interruption_ends_the_job(self):
        # SIGTERM ends the workers, and none of them fails by itself.
        for signals, code in (((signal.SIGINT,), 130), ((signal.SIGTERM,), 75),
                              ((signal.SIGINT, signal.SIGINT), 130)):
            with self.subTest(signals):
                mark = "63.25"
                twice = len(signals) == 2
                script = STUBBORN.format(mark=mark) if twice else f"sleep {mark}"
                if twice:
                    script = "trap '' INT;" + script
                process = self.start("-n", "2", "--", "sh", "-c", f"{script}; exit 0")
                self.wait_for_sleepers(mark, 2 * 2 if twice else 2)
                begin = time.monotonic()
                for number in signals:
                    process.send_signal(number)
                    time.sleep(0.3)
                _, err = process.communicate(timeout=SECONDS)
                self.assertLess(time.monotonic() - begin, 10)
                self.assertEqual(process.returncode, code, err)
                self.assertEqual(commands_with(f"sleep {mark}"), [])

    def test_sigusr1_reaches_only_workers_that_can_report(self):
        script = ("if [ $MIRRORFLOW_WORKER_INDEX = 1 ]; then trap 'echo reported; exit 0' USR1; fi; echo ready; "
                  "while [ ! -e report.done ]; do sleep 0.02; done")
        job = self.start("-n", "2", "--", "bash", "-c", script)
        ready = [job.stdout.readline() for _ in range(2)]
        self.assertEqual(sorted(ready), ["[worker 0] ready\n", "[worker 1] ready\n"])
        job.send_signal(signal.SIGUSR1)
        self.assertEqual(job.stdout.readline(), "[worker 1] reported\n")
        self.write("report.done", "")
        out, err = job.communicate(timeout=SECONDS)
        self.assertEqual((job.returncode, out), (0, ""), err)

    def test_workers_that_end_well_after_a_signal_have_succeeded(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                job = self.start("-n", "2", "--", "sh", "-c", "trap 'exit 0' INT TERM; "
                                 "touch began$RANK; while :; do sleep 0.01; done")
                began = [self.root / f"began{rank}" for rank in range(2)]
                programs.wait_until(lambda: all(p.exists() for p in began), "workers")
                job.send_signal(number)
                _, err = job.communicate(timeout=SECONDS)
                self.assertEqual(job.returncode, 0, err)
                for path in began:
                    path.unlink()

    def test_sigterm_before_the_start_ends_the_job_as_stopped(self):
        self.write("silent", "#!/bin/sh\nexec sleep 66.25\n")
        (self.root / "silent").chmod(0o755)
        job = self.start("--hosts=a,b", f"--rsh={self.root}/silent", "--", "true")
        self.wait_for_sleepers("66.25", 2)
        job.send_signal(signal.SIGTERM)
        _, err = job.communicate(timeout=SECONDS)
        self.assertEqual(job.returncode, 75, err)
        self.assertIn("run the same command to continue", err)
        self.assertEqual(commands_with("sleep 66.25"), [])

    def test_signal_during_the_pause_before_a_restart_starts_nothing(self):
        for number, code in ((signal.SIGTERM, 75), (signal.SIGINT, 130)):
            with self.subTest(number.name):
                job = self.start("-n", "1", "--max_restarts=1", "--restart_pause=1h", "--", "sh",
                                 "-c", "echo attempt; exit 7")
                line = job.stderr.readline()
                while line and "restart 1 of" not in line:
                    line = job.stderr.readline()
                job.send_signal(number)
                out, err = job.communicate(timeout=SECONDS)
                self.assertEqual(job.returncode, code, err)
                self.assertEqual(out, "[worker 0] attempt\n")
                self.assertIn("run the same command to continue", err)

    def test_nothing_is_left_when_the_launcher_is_killed(self):
        mark = "64.25"
        process = self.start("-n", "2", "--", "sh", "-c", STUBBORN.format(mark=mark))
        programs.wait_until(lambda: len(commands_with(f"sleep {mark}")) > 4, "workers")
        process.kill()
        process.communicate(timeout=SECONDS)
        programs.wait_until(lambda: not commands_with(mark), "no process is left")

    def test_signals_count_while_the_output_is_not_read(self):
        process = self.start("-n", "2", "--", "sh", "-c", "while :; do echo a long line; done")
        waiting, before = 0, -1
        while waiting == 0 or waiting != before:  # until the pipe is full
            time.sleep(0.1)
            before, waiting = waiting, unread(process.stdout)
        process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        self.assertEqual(process.wait(timeout=SECONDS), 75)
        self.assertLess(time.monotonic() - begin, 10)
        process.communicate(timeout=SECONDS)

    def test_silent_host_with_large_environment_does_not_stop_the_launcher(self):
        self.write("silent", "#!/bin/sh\nexec sleep 66.5\n")
        (self.root / "silent").chmod(0o755)
        begin = time.monotonic()
        result = self.launch("--hosts=a,b", f"--rsh={self.root}/silent", "--start_timeout=300ms",
                             "--grace=100ms", "--", "true", environment={"LARGE": "x" * 100_000})
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(result.returncode, 124, result.stderr)
        self.assertEqual(commands_with("sleep 66.5"), [])

    def test_job_outlives_a_hang_up_that_is_ignored(self):
        process = subprocess.Popen(
            ["nohup", programs.MIRRORFLOW, "launch", "-n", "1", "--", "sh", "-c",
             "sleep 1; echo alive"], cwd=self.root, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        time.sleep(0.5)
        process.send_signal(signal.SIGHUP)
        out, err = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(out, "[worker 0] alive\n")

    def test_start_deadline(self):
        self.write("slow", "#!/bin/sh\nexec sleep 65.5\n")
        (self.root / "slow").chmod(0o755)
        result = self.launch("--hosts=a,b", f"--rsh={self.root}/slow", "--start_timeout=300ms",
                             "--grace=100ms", "--", "true")
        self.assertEqual(result.returncode, 124, result.stderr)
        self.assertIn("0 of 2 workers started within 300ms; missing: 0 on host a, 1 on host b",
                      result.stderr)
        self.assertEqual(commands_with("sleep 65.5"), [])

    def test_other_hosts_get_environment_and_command_on_standard_input(self):
        # A remote shell that drops its environment and keeps only its arguments.
        self.write("rsh", "#!/bin/sh\necho \"$@\" >> rsh.log\nhost=$1; shift\n"
                          "exec env -i PATH=$PATH HOST=$host \"$@\"\n")
        (self.root / "rsh").chmod(0o755)
        result = self.launch(
            "--hosts=a=127.0.0.1:2,b=127.0.0.1:1", f"--rsh={self.root}/rsh {{host}}", "--", "sh",
            "-c", "echo $HOST $RANK $LOCAL_RANK $OWN", environment={"OWN": "mine"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         ["[worker 0] a 0 0 mine", "[worker 1] a 1 1 mine",
                          "[worker 2] b 2 0 mine"])
        log = sorted((self.root / "rsh.log").read_text().splitlines())
        self.assertEqual(len(log), 2)
        for line, expected in zip(log, ("a .* 2", "b .* 1"), strict=True):
            self.assertRegex(line, expected.replace(".*", r"\S*/mirrorflow supervise") + "$")

    def write_counting_shell(self):
        """Writes a remote shell that records each start in `starts`, and its process id in
        `HOST.shell`. As with ssh, its command runs in another session."""
        self.write("counting", "#!/bin/sh\nhost=$1; shift\necho $host >> starts\n"
                               "echo $$ > $host.shell\ncat | HOST=$host setsid \"$@\" | cat\n")
        (self.root / "counting").chmod(0o755)
        (self.root / "starts").unlink(missing_ok=True)
        return f"--rsh={self.root}/counting {{host}}"

    def starts(self):
        return sorted((self.root / "starts").read_text().splitlines())

    def test_each_host_has_one_remote_shell(self):
        result = self.launch("--hosts=a=127.0.0.1:16,b=127.0.0.1:3", self.write_counting_shell(),
                             "--", "sh", "-c", "for i in 1 2 3; do echo $RANK line $i; done")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.starts(), ["a", "b"])
        self.assertEqual(sorted(result.stdout.splitlines()), sorted(
            f"[worker {w}] {w} line {i}" for w in range(19) for i in range(1, 4)))

    def test_each_restart_asks_each_host_once(self):
        result = self.launch("--hosts=a=127.0.0.1:4,b=127.0.0.1:4", "--max_restarts=2",
                             "--restart_pause=1ms", self.write_counting_shell(), "--", "sh", "-c",
                             "[ $MIRRORFLOW_RESTART_COUNT = 2 ] && exit 0; "
                             "[ $RANK = 5 ] && exit 9; exec sleep 60")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.starts(), ["a"] * 3 + ["b"] * 3)

    def test_one_worker_of_a_host_that_fails_ends_the_others_with_their_grace(self):
        result = self.launch(
            "--hosts=a=127.0.0.1:3,b=127.0.0.1:3", self.write_counting_shell(), "--", "sh", "-c",
            "trap 'echo saved; exit 75' TERM; touch ready.$RANK; [ $RANK = 1 ] && "
            "{ until [ $(ls -d ready.* | wc -l) = 6 ]; do sleep 0.01; done; exit 7; }; "
            "while :; do sleep 0.01; done")
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertRegex(result.stderr,
                         r"first failure : worker 1 \(pid \d+, host a\) exit code 7 ")
        self.assertIn("stopped by us : workers 0, 2, 3, 4, 5 (SIGTERM)", result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         [f"[worker {w}] saved" for w in (0, 2, 3, 4, 5)])

    def test_remote_shell_that_dies_fails_all_workers_of_its_host(self):
        mark = "607.25"  # longer than any wait
        job = self.start("--hosts=a=127.0.0.1:2,b=127.0.0.1:3", self.write_counting_shell(), "--",
                         "sh", "-c",
                         f"sleep {mark} & setsid sleep {mark} & echo started; wait; exit 0")
        self.wait_for_sleepers(mark, 2 * 5)
        for _ in range(5):  # the launcher knows a worker's pid before it shows the worker's output
            self.assertRegex(job.stdout.readline(), "started")
        os.killpg(int((self.root / "b.shell").read_text()), signal.SIGKILL)
        _, err = job.communicate(timeout=SECONDS)
        self.assertEqual(job.returncode, 137, err)
        self.assertRegex(err, r"first failure : worker 2 \(pid \d+, host b\) exit code 137 ")
        self.assertIn("message       : its supervisor has ended", err)
        for worker in (3, 4):
            self.assertRegex(err, rf"also failed   : worker {worker} \(pid \d+, host b\)")
        self.assertIn("stopped by us : workers 0, 1 (SIGTERM)", err)
        programs.wait_until(lambda: not commands_with(f"sleep {mark}"), "no process is left")

    def test_few_remote_shells_start_at_the_same_time(self):
        # Each shell waits until 32 shells, the limit, are starting at the same time. Without the
        # limit, more would start.
        self.write("slow", "#!/bin/sh\nhost=$1; shift\nmkdir starting.$host\n"
                           "now=$(ls -d starting.* | wc -l)\necho $now >> now\n"
                           "[ $now -lt 32 ] || touch go\nuntil [ -e go ]; do sleep 0.01; done\n"
                           "sleep 0.1\nrmdir starting.$host\nexec \"$@\"\n")
        (self.root / "slow").chmod(0o755)
        hosts = ",".join(f"h{i}=127.0.0.1" for i in range(48))
        result = self.launch(f"--hosts={hosts}", f"--rsh={self.root}/slow {{host}}", "--", "true")
        self.assertEqual(result.returncode, 0, result.stderr)
        now = [int(line) for line in (self.root / "now").read_text().split()]
        self.assertEqual(len(now), 48)
        self.assertEqual(max(now), 32)

    def test_unreachable_host_is_reported(self):
        result = self.launch("--hosts=a,b", "--rsh=sh -c 'exit'", "--", "true")
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"first failure : worker \d \(host [ab]\) not started")

    def test_log_dir_keeps_all_output(self):
        result = self.launch("-n", "2", "--log_dir=logs", "--show=0", "--", "sh", "-c",
                             "echo out $RANK; echo err $RANK >&2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "[worker 0] out 0\n")
        logs = self.root / "logs"
        for w in range(2):
            self.assertEqual((logs / f"worker_{w}.out").read_text(), f"out {w}\n")
            self.assertEqual((logs / f"worker_{w}.err").read_text(), f"err {w}\n")
        lines = (logs / "all.log").read_text().splitlines()
        self.assertEqual(len(lines), 4)
        for line in lines:
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \[worker [01]\] ")

    def test_mistakes_are_usage_errors(self):
        for arguments, part in (
                (["-n", "2"], "no program"), (["-n", "0", "--", "true"], "-n: out of range"),
                (["--hosts=a:0", "--", "true"], "slots"),
                (["--hosts=a:x", "--", "true"], "slots"),
                (["--hosts=a,a", "--", "true"], "named twice"),
                (["--hosts=-oProxyCommand=x", "--", "true"], "looks like a flag"),
                (["--hosts=a:1", "-n", "2", "--", "true"], "expected 1 to 1, got 2"),
                (["-n", "2", "--show=2", "--", "true"], "--show"),
                (["-n", "2", "--replicas=1", "--", "true"], "--replicas: not a flag of launch"),
                (["--num_workers=2", "--", "true"], "--num_workers: not a flag of launch"),
                (["-n", "1", "--log_dir=/proc/none", "--", "true"], "--log_dir")):
            with self.subTest(arguments):
                result = self.launch(*arguments)
                self.assertEqual(result.returncode, programs.USAGE, result.stderr)
                self.assertIn(part, result.stderr)

    def train(self, workers, replicas, model, name, *flags):
        command = [programs.FASHION_MNIST, "--data_dir=good", "--global_batch_size=10",
                   "--steps=6", "--seed=7", "--log_format=off", f"--model={model}",
                   f"--replicas={replicas}", f"--loss_log={name}.log",
                   f"--save_variables={name}.safetensors", *flags]
        if workers == 1:
            subprocess.run(command, cwd=self.root, check=True, timeout=SECONDS, capture_output=True)
        else:
            result = self.launch("-n", str(workers), "--", *command)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("cluster from MIRRORFLOW_NUM_WORKERS", result.stderr)
        return [(self.root / f"{name}.{e}").read_bytes() for e in ("log", "safetensors")]

    def test_workers_of_a_host_compute_the_bits_of_one_process(self):
        for model, cases in (("mlp", ((2, 1), (4, 1), (2, 2))), ("cnn", ((2, 1),))):
            for workers, replicas in cases:
                with self.subTest(f"{model}, {workers} workers of {replicas}"):
                    one = self.train(1, workers * replicas, model, "one")
                    several = self.train(workers, replicas, model, "several")
                    self.assertTrue(one == several, "the bits differ")

    def test_first_failure_is_the_cause_and_not_its_consequence(self):
        # Worker 0 notices the loss of worker 1, and may end first.
        script = ('exec "$0" --data_dir=$([ $RANK = 1 ] && echo nowhere || echo good) --model=mlp '
                  '--steps=4 --log_format=off')
        result = self.launch("-n", "2", "--", "sh", "-c", script, programs.FASHION_MNIST)
        self.assertEqual(result.returncode, programs.BAD_INPUT, result.stderr)
        self.assertIn("first failure : worker 1", result.stderr)
        self.assertRegex(result.stderr, r"message       : NOT_FOUND: .*nowhere")


if __name__ == "__main__":
    programs.main()
