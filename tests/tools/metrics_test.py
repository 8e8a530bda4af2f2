#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Queries the metrics, health and readiness of workers that wait, train, hang and lose each other.

Runs with Debian's Python, because Debian's prometheus_client parses the metrics.
"""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

from prometheus_client import parser

import programs
from programs import CLUSTER, FASHION_MNIST, USAGE, free_port, own, wait_until

EXAMPLES = pathlib.Path("examples/cluster").resolve()
ENDLESS = ["--data_dir=good", "--model=mlp", "--replicas=1", "--global_batch_size=10", "--steps=1000000000",
           "--log_format=off", "--metrics=0"]


class Worker:
    """A worker that chose the port of its metrics."""

    def __init__(self, root, rank, coordinator, *flags, **environment):
        self.process = subprocess.Popen(
            [FASHION_MNIST, *ENDLESS, *flags], cwd=root, text=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env={**os.environ, **own(rank, 2, coordinator), **environment})
        for line in self.process.stderr:
            match = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", line)
            if match:
                self.port = int(match[1])
                return
        raise AssertionError("the worker says no port")

    def get(self, path):
        """Returns the code and the text; or (0, "") once the process has ended."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def metrics(self):
        """Returns the metric families, by name."""
        code, text = self.get("/metrics")
        assert code == 200, text
        return {family.name: family for family in parser.text_string_to_metric_families(text)}

    def value(self, name):
        """Returns the value of a metric's only sample, or None if the metric does not exist."""
        families = self.metrics()
        family = families.get(name.removesuffix("_total"))
        return family and family.samples[0].value

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=programs.SECONDS)


class MetricsTest(programs.ProgramTest):

    def start(self, rank, coordinator, *flags, **environment):
        worker = Worker(self.root, rank, coordinator, *flags, **environment)
        self.addCleanup(worker.kill)
        return worker

    def test_worker_is_ready_when_all_have_joined(self):
        port = free_port()
        flags = ["--job=mnist", "--heartbeat_timeout=2s"]
        first = self.start(0, port, *flags, MIRRORFLOW_RESTART_COUNT="3")
        wait_until(lambda: first.get("/readyz")[1].startswith("waiting: the 2 workers "), "the worker's start")
        for _ in range(5):
            self.assertEqual(first.get("/readyz")[0], 503)
            self.assertEqual(first.get("/healthz"), (200, "ok\n"))
            self.assertEqual(first.value("mirrorflow_ready"), 0)
            time.sleep(0.1)
        wait_until(lambda: "2 workers: 1 " in first.get("/readyz")[1], "the coordination service")
        self.assertRegex(first.get("/readyz")[1], r"(?m)^2 workers: 1 .*1 missing \(1\)$")
        self.assertIn("worker 1: missing", self.status(port))
        second = self.start(1, port, *flags)
        for worker in (first, second):
            wait_until(lambda: worker.get("/readyz") == (200, "ok\n"), "a step of both workers")
            self.assertEqual(worker.get("/healthz"), (200, "ok\n"))
        self.check_metrics(first, second)
        for rank, worker in enumerate((first, second)):
            where = rf"worker {rank} \(process {worker.process.pid} on [^)]+\): (in|after) step \d+"
            wait_until(lambda: re.search(where, self.status(port)), "the step of a worker")
        # Each worker logs its own state, and the worker with the service logs the state of all.
        first.process.send_signal(signal.SIGUSR1)
        self.assertTrue(any("2 workers: " in line for line in first.process.stderr))
        second.process.send_signal(signal.SIGUSR1)
        self.assertTrue(any(re.search(r"worker 1: (in|after) step \d+", line) for line in second.process.stderr))
        # A stopped process is lost once it has been silent for the time limit; the other one ends.
        second.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: first.get("/readyz")[0] != 200, "the loss of a worker")
        wait_until(lambda: first.process.poll() is not None, "the end of the other worker")
        self.assertEqual(first.process.returncode, CLUSTER)

    def status(self, port):
        result = self.run_program(programs.MIRRORFLOW, "status", f"127.0.0.1:{port}", "--job=mnist")
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def check_metrics(self, first, second):
        for rank, worker in enumerate((first, second)):
            families = worker.metrics()
            for family in families.values():
                self.assertTrue(family.documentation, family.name)
                self.assertNotEqual(family.type, "unknown", family.name)
                for sample in family.samples:
                    self.assertEqual((sample.labels["job"], sample.labels["worker"]), ("mnist", str(rank)))
            self.assertEqual(families["mirrorflow_restarts"].samples[0].value, 0 if rank else 3)
            self.assertEqual(worker.value("mirrorflow_ready"), 1)
            self.assertEqual(worker.value("mirrorflow_workers"), 2)
            self.assertEqual(worker.value("mirrorflow_replicas"), 2)
            self.assertEqual(worker.value("mirrorflow_local_replicas"), 1)
            self.assertGreater(worker.value("process_resident_memory_bytes"), 1 << 20)
            step = worker.value("mirrorflow_step")
            wait_until(lambda: worker.value("mirrorflow_step") > step, "another step")
            families = worker.metrics()
            samples = {(s.name, s.labels.get("le")): s.value
                       for s in families["mirrorflow_step_duration_seconds"].samples}
            steps = samples["mirrorflow_step_duration_seconds_count", None]
            self.assertEqual(samples["mirrorflow_step_duration_seconds_bucket", "+Inf"], steps)
            self.assertAlmostEqual(families["mirrorflow_step"].samples[0].value, steps, delta=1)
            self.assertAlmostEqual(families["mirrorflow_examples"].samples[0].value, 10 * steps, delta=10)
            self.assertGreater(worker.value("mirrorflow_exposed_communication_seconds_total"), 0)

    def test_worker_that_hangs_is_not_healthy(self):
        port = free_port()
        waits, hangs = workers = [
            self.start(rank, port, f"--progress_timeout={limit}",
                       MIRRORFLOW_FAILPOINTS="session/run=hang@1#200")
            for rank, limit in enumerate(("1s", "5s"))]
        seen = []  # the answers of the waiting worker

        def is_red():
            seen.append(waits.get("/healthz"))
            code, text = hangs.get("/healthz")
            return code == 503 and text.startswith("hangs: step ")

        wait_until(is_red, "the worker that hangs")
        # The other worker is never considered hung, although it exceeds its limit without progress.
        self.assertEqual([text for _, text in seen if text.startswith("hangs")], [])
        self.assertIn((200, "ok\n"), seen)
        wait_until(lambda: hangs.get("/readyz") == (503, "a worker is lost or has failed\n"),
                   "the failure of the cluster")
        for worker in workers:
            wait_until(lambda: worker.process.poll() is not None, "the end of the workers")
            self.assertEqual(worker.process.returncode, CLUSTER)

    def test_straggler_is_named(self):
        port = free_port()
        first, _ = [self.start(rank, port, MIRRORFLOW_FAILPOINTS="train/step=delay@1") for rank in range(2)]
        # The service, in worker 0, looks for stragglers once a minute.
        line = next(line for line in first.process.stderr if "straggler" in line)
        self.assertRegex(line, r"^WARNING: worker 1 \(process \d+")
        self.assertGreater(int(re.search(r"costs (\d+) %", line)[1]), 50)

    def test_bad_address(self):
        for address in ("nonsense", "localhost", "1:2:3", "70000"):
            self.check_training_fails([f"--metrics={address}"], USAGE, "INVALID_ARGUMENT", "--metrics", address)
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = str(other.getsockname()[1])
            self.check_training_fails([f"--metrics={port}"], USAGE, "UNAVAILABLE", "--metrics", port)

    def test_dashboard_names_only_metrics_that_exist(self):
        dashboard = json.loads((EXAMPLES / "dashboard.json").read_text(encoding="utf-8"))
        queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
        queries += [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
        self.assertGreater(len(queries), 8)
        port = free_port()
        checkpoints = ["--checkpoint_dir=dashboard", "--checkpoint_every=5"]
        worker, _ = [self.start(rank, port, *checkpoints) for rank in range(2)]
        wait_until(lambda: worker.value("mirrorflow_checkpoint_age_seconds") is not None, "a checkpoint")
        names = {sample.name for family in worker.metrics().values() for sample in family.samples}
        for query in queries:
            used = set(re.findall(r"\b(?:mirrorflow|process)_\w+", query))
            self.assertTrue(used, query)
            self.assertEqual(used - names, set(), query)
        # The dashboard shows every metric.
        shown = set(re.findall(r"\bmirrorflow_\w+", " ".join(queries)))
        unused = {name.removesuffix("_sum").removesuffix("_count").removesuffix("_bucket")
                  for name in names if name.startswith("mirrorflow_")}
        unused -= {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
        self.assertEqual(unused, set())


if __name__ == "__main__":
    programs.main()
