#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines on standard error have the time and origin that MIRRORFLOW_LOG_FORMAT selects."""

import json
import os
import subprocess

import programs
from programs import MIRRORFLOW, USAGE, own

SECONDS = 60
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
TRAIN = ["--data_dir=good", "--model=mlp", "--replicas=1", "--global_batch_size=10", "--steps=4"]
WORKER_1_FAILS = {"MIRRORFLOW_FAILPOINTS": "train/step=error@1#2"}


def environment(log_format=None, **variables):
    result = {**os.environ, **variables}
    del result["MIRRORFLOW_LOG_FORMAT"]  # programs.py sets it
    if log_format:
        result["MIRRORFLOW_LOG_FORMAT"] = log_format
    return result


class LogFormatTest(programs.WorkersTestCase):

    def launch(self, env, *arguments):
        return subprocess.run([MIRRORFLOW, "launch", *arguments], cwd=self.root, env=env,
                              capture_output=True, timeout=SECONDS, check=False)

    def parse(self, errors):
        """Returns the parsed JSON lines of a standard error."""
        lines = []
        for line in errors.decode("utf-8").splitlines():
            self.assertNotRegex(line, programs.CONTROL)
            lines.append(json.loads(line))
            self.assertIsInstance(lines[-1], dict)
            self.assertIn("time", lines[-1])
        return lines

    def test_every_line_of_a_launched_job_is_an_object(self):
        result = self.launch(environment("json", **WORKER_1_FAILS), "-n", "2", "--",
                             programs.FASHION_MNIST, *TRAIN)
        self.assertNotEqual(result.returncode, 0)
        lines = self.parse(result.stderr)
        of_workers = [line for line in lines if "worker" in line]
        self.assertEqual({line["worker"] for line in of_workers}, {0, 1})
        jobs = {line.get("job") for line in of_workers}
        self.assertEqual(len(jobs), 1, jobs)
        self.assertRegex(jobs.pop(), "^launch [0-9a-f]{16}$")
        messages = [line for line in lines if "event" not in line and "epoch" not in line]
        for line in messages:
            self.assertRegex(line["time"], f"^{TIME}$")
            self.assertIn(line["severity"], ("INFO", "WARNING", "ERROR"))
            self.assertGreater(line["process"], 0)
        # These are the progress, the errors of the failing worker and of the other worker, and the
        # launcher's error.
        self.assertIn("start", [line.get("event") for line in of_workers])
        errors = [line for line in messages if line["severity"] == "ERROR"]
        [cause] = [line for line in errors if line.get("worker") == 1]
        self.assertIn("INTERNAL failpoint train/step", cause["message"])
        [report] = [line for line in errors if "worker" not in line]
        self.assertRegex(report["message"], "^mirrorflow launch: FAILED")
        self.assertIn("first failure : worker 1", report["message"])
        self.assertEqual(report["job"], cause["job"])

    def test_other_lines_of_a_launched_worker_become_messages(self):
        script = ("echo result; echo text >&2; printf 'red \\033[31m \\377 \"x\"\\n' >&2; "
                  "echo '{\"time\":\"now\", \"message\":1}' >&2; echo '{broken' >&2; printf last >&2")
        result = self.launch(environment("json"), "-n", "1", "--", "sh", "-c", script)
        self.assertEqual((result.returncode, result.stdout), (0, b"[worker 0] result\n"))
        self.assertIn(b'\n{"time":"now", "message":1}\n', result.stderr)  # unchanged
        lines = self.parse(result.stderr)
        self.assertEqual([line["message"] for line in lines],
                         ["text", "red \\033[31m \ufffd \"x\"", 1, "{broken", "last"])
        for line in lines:
            if line["time"] != "now":
                self.assertEqual(line["worker"], 0)
                self.assertRegex(line["job"], "^launch ")

    def test_workers_say_in_text_when_and_where_a_line_comes_from(self):
        results = self.run_workers(
            lambda rank, size, port: {**own(rank, size, port), **WORKER_1_FAILS,
                                      "MIRRORFLOW_LOG_FORMAT": "text", "MIRRORFLOW_JOB": "mlp"},
            2, [*TRAIN, "--collective=tcp"])
        for rank, result in enumerate(results):
            lines = result.stderr.splitlines()
            self.assertRegex(lines[0], "^WARNING: MIRRORFLOW_FAILPOINTS: ")  # before the flags
            for line in lines[1:]:
                self.assertRegex(line, f"^{TIME} job=mlp worker={rank} ")
            self.assertNotEqual(result.returncode, 0)
        self.assertRegex(results[1].stderr.splitlines()[-1],
                         " worker=1 ERROR INTERNAL .*failpoint train/step")

    def test_launcher_alone_labels_text(self):
        for log_format in (None, "plain"):
            result = self.launch(environment(log_format, **WORKER_1_FAILS), "-n", "2", "--",
                                 programs.FASHION_MNIST, *TRAIN, "--log_format=off")
            text = result.stderr.decode()
            self.assertRegex(text, r"(?m)^\[worker 1\] ERROR INTERNAL .*failpoint train/step")
            self.assertRegex(text, r"(?m)^\[worker 0\] mirrorflow: |^\[worker 0\] cluster from ")
        # The text format was chosen explicitly.
        result = self.launch(environment("text", **WORKER_1_FAILS), "-n", "2", "--",
                             programs.FASHION_MNIST, *TRAIN, "--log_format=off")
        self.assertRegex(result.stderr.decode(), rf'(?m)^\[worker 1\] {TIME} job="launch [0-9a-f]+" '
                                                 "worker=1 ERROR INTERNAL ")

    def test_single_process_has_no_labels(self):
        self.write_data("none", train_images_idx3_ubyte=None)
        command = [programs.FASHION_MNIST, "--data_dir=none"]
        text = subprocess.run(command, cwd=self.root, env=environment("text"), text=True,
                              capture_output=True, timeout=SECONDS, check=False)
        self.assertRegex(text.stderr, "^ERROR NOT_FOUND ")
        in_json = subprocess.run(command, cwd=self.root, env=environment("json"),
                                 capture_output=True, timeout=SECONDS, check=False)
        [line] = self.parse(in_json.stderr)
        self.assertEqual(line["severity"], "ERROR")
        self.assertEqual("ERROR " + line["message"] + "\n", text.stderr)
        self.assertFalse({"job", "worker"} & set(line))

    def test_lines_that_strict_parsers_refuse_become_objects(self):
        script = r"""printf '\357\273\277{"a":1}\n{"b":2}\r\n{"c":3}\n' >&2"""
        result = self.launch(environment("json"), "-n", "1", "--", "sh", "-c", script)
        lines = [json.loads(line) for line in result.stderr.decode("utf-8").splitlines()]
        self.assertIn({"c": 3}, lines)
        messages = [line.get("message", "") for line in lines]
        self.assertTrue(any('{"a":1}' in message for message in messages), messages)
        self.assertTrue(any('{"b":2}' in message for message in messages), messages)

    def test_empty_variable_counts_as_unset(self):
        env = {**environment(), "MIRRORFLOW_LOG_FORMAT": ""}
        result = subprocess.run([MIRRORFLOW, "devices"], cwd=self.root, env=env, text=True,
                                capture_output=True, timeout=SECONDS, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_unknown_format_is_a_usage_error(self):
        result = subprocess.run([MIRRORFLOW, "devices"], cwd=self.root, env=environment("xml"),
                                text=True, capture_output=True, timeout=SECONDS, check=False)
        self.assertEqual(result.returncode, USAGE)
        self.assertRegex(result.stderr, "^ERROR INVALID_ARGUMENT MIRRORFLOW_LOG_FORMAT: ")


if __name__ == "__main__":
    programs.main()
