#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts of `mirrorflow launch` that send data that no supervisor sends: the job ends with an error
that names the host and the worker, and nothing that they print controls the terminal."""

import os
import shutil
import subprocess
import sys
import time

import programs
from programs import CONTROL

SECONDS = 60  # time limit; a job takes less than 5 s

# A remote shell that simulates host `a` as its first argument specifies, and really runs host `b`.
FAKE_HOST = r'''
import os, select, sys, time

def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])

def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data

def send(event):
    os.write(1, varint(len(event)) + event)

def ports(*numbers):
    send(field(1, field(1, b"".join(varint(n) for n in numbers))))

def started():
    send(varint(2 << 3) + varint(7))

def output(text):
    send(field(3, text))

def await_order():
    select.select([0], [], [])
    assert os.read(0, 1 << 20)

mode, host = sys.argv[1:3]
if host == "b" and mode != "other_worker" or host == "a" and mode == "other_worker":
    if mode == "unordered" or mode == "other_worker":
        time.sleep(1)  # orders are sent once all hosts are ready, so not before the ports arrive
    os.execvp(sys.argv[3], sys.argv[3:])
if mode == "profile":
    print("Welcome to a!\x1b[2J", flush=True)
    os.execvp(sys.argv[3], sys.argv[3:])
if mode == "binary":
    os.write(1, bytes(range(255, 0, -1)) * 100)
if mode == "early":
    ports(1, 2, 3, 4)
ready = field(6, b"")
send(ready)
if mode == "ready_twice":
    send(ready)
if mode == "unordered" or mode == "other_worker":
    ports(1, 2, 3, 4)
if mode == "started":
    started()
if mode == "output":
    output(b"x")
if mode == "saved":
    send(varint(7 << 3) + varint(100))
if mode == "ended":
    send(field(5, varint(1 << 3) + varint(-1)))
if mode == "huge":
    os.write(1, varint(1 << 30))
await_order()
if mode == "few":
    ports(1, 2, 3)
if mode == "none":
    ports()
if mode == "many":
    ports(*range(1, 60000))
if mode == "negative":
    ports(1, 2, 3, -4)
if mode == "large":
    ports(1, 2, 3, 65536)
if mode == "twice":
    ports(1, 2, 3, 4)
    ports(1, 2, 3, 4)
time.sleep(30)
'''

MODES = {  # the modes of host `a`, each with a part of the message
    "profile": r"'Welcome to a!\x1b[2J",
    "binary": "expected the supervisor's first event",
    "early": "expected the supervisor's first event",
    "ready_twice": "'ready' is refused",
    "unordered": "'ports' is refused",
    "other_worker": "'ports' is refused",
    "started": "'started' is refused",
    "output": "'output' is refused",
    "saved": "'saved' is refused",
    "ended": "'ended' is refused",
    "huge": "malformed",
    "few": "expected 4 ports, got 3",
    "none": "expected 4 ports, got 0",
    "many": "expected 4 ports, got 59999",
    "negative": "got -4",
    "large": "got 65536",
    "twice": "'ports' is refused",
}


class HostileHostsTest(programs.ProgramTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("fake_host.py", FAKE_HOST)

    def launch(self, *arguments, environment=None):
        result = subprocess.run([programs.MIRRORFLOW, "launch", *arguments], cwd=self.root,
                                capture_output=True, timeout=SECONDS, check=False,
                                env={**os.environ, **(environment or {})})
        return subprocess.CompletedProcess(result.args, result.returncode,
                                           result.stdout.decode(errors="replace"),
                                           result.stderr.decode(errors="replace"))

    def shell(self, mode):
        return f"--rsh={sys.executable} {self.root}/fake_host.py {mode} {{host}}"

    def test_unexpected_events_end_the_job(self):
        for mode, part in MODES.items():
            host, worker = ("b", 1) if mode == "other_worker" else ("a", 0)
            with self.subTest(mode):
                begin = time.monotonic()
                result = self.launch("--hosts=a=127.0.0.1,b=127.0.0.1", self.shell(mode),
                                     "--grace=1s", "--", "sleep", "67.5")
                self.assertGreater(result.returncode, 0, result.stderr)  # negative: a signal
                self.assertIn(f"first failure : worker {worker} ", result.stderr)
                self.assertIn(f"host {host})", result.stderr)
                self.assertIn(part, result.stderr)
                self.assertNotRegex(result.stderr, CONTROL)
                # The job ends long before --start_timeout.
                self.assertLess(time.monotonic() - begin, SECONDS / 2)

    def test_elastic_job_names_the_host_that_it_leaves_out(self):
        result = self.launch("-n", "1:2", "--hosts=a=127.0.0.1,b=127.0.0.1", self.shell("profile"),
                             "--", "true")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 of at most 2 workers; host a does not answer", result.stderr)
        self.assertIn(r"'Welcome to a!\x1b[2J", result.stderr)
        self.assertNotRegex(result.stderr, CONTROL)

    def test_remote_shell_cannot_control_the_terminal(self):
        self.write("fails", "#!/bin/sh\nprintf '\\033]0;owned\\007\\033[2J\\n' >&2\nexit 255\n")
        (self.root / "fails").chmod(0o755)
        for arguments in (["--hosts=a"], ["-n", "1:2", "--hosts=a,b", "--start_timeout=300ms"]):
            result = self.launch(*arguments, f"--rsh={self.root}/fails {{host}}", "--", "true")
            self.assertGreater(result.returncode, 0)
            self.assertIn(r"\033]0;owned\007\033[2J", result.stderr)
            self.assertNotRegex(result.stderr, CONTROL)
        result = self.run_program(programs.MIRRORFLOW, "bench", "step", "--model=mlp",
                                  "--workers=2", "--hosts=a,b", f"--rsh={self.root}/fails {{host}}")
        self.assertGreater(result.returncode, 0)
        self.assertIn(r"\033]0;owned\007\033[2J", result.stderr)

    def test_workers_keep_colours_and_progress_bars_only(self):
        result = self.launch(
            "-n", "1", "--", "sh", "-c",
            r"printf 'a\033[1;31mred\033[0m\tb\r50 %%\033[K \033]0;t\007\033[2J\302\233\n'; exit 9")
        shown = "a\033[1;31mred\033[0m\tb\r50 %\033[K " r"\033]0;t\007\033[2J\302\233" "\n"
        self.assertEqual(result.returncode, 9)
        self.assertEqual(result.stdout, "[worker 0] " + shown)
        self.assertIn("    " + shown, result.stderr)  # the last output

    def test_hidden_text_of_a_worker_hides_no_other_text(self):
        result = self.launch("-n", "1", "--", "sh", "-c", r"printf '\033[8mhidden\n'; exit 9")
        shown = "\033[8mhidden\033[0m\n"
        self.assertEqual(result.returncode, 9)
        self.assertEqual(result.stdout, "[worker 0] " + shown)
        self.assertIn("    " + shown, result.stderr)  # the last output

    def test_message_of_a_worker_cannot_control_the_terminal(self):
        script = r"""printf '{"code":"C","message":"one\\u001b[2J\\ntwo"}' > $MIRRORFLOW_ERROR_FILE
                     exit 9"""
        result = self.launch("-n", "1", "--", "sh", "-c", script)
        self.assertEqual(result.returncode, 9)
        self.assertIn("message       : C: one\\033[2J\ntwo\n", result.stderr)

    def test_error_file_that_nests_too_deeply_is_ignored(self):
        script = "head -c 60000 /dev/zero | tr '\\0' '[' > $MIRRORFLOW_ERROR_FILE; exit 9"
        result = self.launch("-n", "1", "--", "sh", "-c", script)
        self.assertEqual(result.returncode, 9, result.stderr)

    def test_secrets_stay_on_this_host(self):
        environment = {"HF_TOKEN": "hidden-1", "AWS_PROFILE": "hidden-2", "MY_SECRET": "sent",
                       "LD_PRELOAD": "", "OWN": "sent"}
        self.write("rsh", "#!/bin/sh\nshift\nexec env -i PATH=$PATH \"$@\"\n")
        (self.root / "rsh").chmod(0o755)
        result = self.launch("--hosts=a", f"--rsh={self.root}/rsh {{host}}", "--env=MY_SECRET",
                             "--", "env", environment=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        for line in ("MY_SECRET=sent", "OWN=sent"):
            self.assertIn(f"[worker 0] {line}\n", result.stdout)
        for name in ("HF_TOKEN", "AWS_PROFILE", "LD_PRELOAD"):
            self.assertNotIn(f" {name}=", result.stdout)
        self.assertRegex(result.stderr, "not sent to other hosts: .*AWS_PROFILE.*HF_TOKEN.*--env")
        self.assertNotIn("hidden", result.stderr)
        self.assertNotIn("MY_SECRET", result.stderr)
        result = self.launch("--hosts=a", "--env=NOT_SET", "--", "true")
        self.assertEqual(result.returncode, programs.USAGE)
        self.assertIn("--env: ", result.stderr)

    def test_path_of_the_program_is_quoted_for_the_remote_shell(self):
        folder = self.root / "my programs; exit 1"
        folder.mkdir()
        shutil.copy(programs.MIRRORFLOW, folder / "mirrorflow")
        # ssh does the same.
        self.write("rsh", "#!/bin/sh\nshift\nexec sh -c \"$*\"\n")
        (self.root / "rsh").chmod(0o755)
        result = subprocess.run(
            [folder / "mirrorflow", "launch", "--hosts=a", f"--rsh={self.root}/rsh {{host}}", "--",
             "echo", "hello"], cwd=self.root, capture_output=True, text=True, timeout=SECONDS,
            check=False)
        self.assertEqual(result.stdout, "[worker 0] hello\n", result.stderr)

    def test_log_dir_does_not_follow_links(self):
        self.write("victim", "contents")
        (self.root / "logs").mkdir()
        (self.root / "logs" / "worker_0.out").symlink_to(self.root / "victim")
        result = self.launch("-n", "1", "--log_dir=logs", "--", "true")
        self.assertEqual(result.returncode, programs.USAGE, result.stderr)
        self.assertIn("--log_dir: ", result.stderr)
        self.assertIn("worker_0.out", result.stderr)
        self.assertEqual((self.root / "victim").read_text(), "contents")


if __name__ == "__main__":
    programs.main()
