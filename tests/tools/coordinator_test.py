#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills and stops workers that connect to `mirrorflow coordinator`, and restarts them like a
scheduler."""

import os
import signal
import subprocess
import time

import programs
import restarts
from programs import BAD_INPUT, CLUSTER, MIRRORFLOW, free_port
from restarts import INTERRUPTED, PREEMPTED, SAVE, SECONDS


class CoordinatorTest(restarts.RestartsTestCase):

    STEPS = 1000

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.processes = []
        self.coordinator = self.start_coordinator()

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate(timeout=SECONDS)

    def start_process(self, *command, **environment):
        self.processes.append(subprocess.Popen(
            command, cwd=self.root, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={**os.environ, **environment}))
        return self.processes[-1]

    def start_coordinator(self, *flags):
        coordinator = self.start_process(MIRRORFLOW, "coordinator",
                                         f"--bind=127.0.0.1:{self.port}", "--num_workers=2", *flags)
        self.assertIn("coordinating 2 workers", coordinator.stderr.readline())
        return coordinator

    def start_worker(self, rank, *flags, **environment):
        return self.start_process(
            *self.train, "--replicas=1", *SAVE, "--heartbeat_timeout=2s",
            f"--external_coordinator=127.0.0.1:{self.port}", *flags, MIRRORFLOW_NUM_WORKERS="2",
            MIRRORFLOW_WORKER_INDEX=str(rank), MIRRORFLOW_COORDINATOR=f"127.0.0.1:{self.port}",
            **environment)

    def start_workers(self):
        return [self.start_worker(rank) for rank in range(2)]

    def check_ends(self, process, code, part=""):
        _, err = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, code, err)
        self.assertIn(part, err)

    def check_stops(self, workers, code, signal_name):
        for rank, worker in enumerate(workers):
            line = f"stopped by {signal_name} after step" if rank == 0 else ""
            self.check_ends(worker, code, line)

    def check_goes_on(self):
        for worker in self.start_workers():
            self.check_ends(worker, 0)
        self.check_same_bits()

    def check_has_served_again(self, why):
        _, err = self.coordinator.communicate(timeout=SECONDS)
        self.assertEqual(self.coordinator.returncode, 0, err)
        self.assertRegex(err, rf"coordinator: the workers have ended: .*{why}.*; waiting for them "
                              r"to start again\ncoordinating 2 workers")
        self.assertEqual(err.count("waiting for them to start again"), 1, err)

    def test_workers_start_again_after_one_was_killed(self):
        for rank in (0, 1):
            with self.subTest(f"worker {rank}"):
                self.setUp()
                workers = self.start_workers()
                self.wait_for_step(100)
                workers[rank].kill()
                self.check_ends(workers[rank], -signal.SIGKILL)
                self.check_ends(workers[1 - rank], CLUSTER, f"worker {rank}")
                self.check_goes_on()
                self.check_has_served_again(f"worker {rank} .* is lost")

    def test_worker_that_starts_again_first_waits_for_the_end_of_the_others(self):
        workers = self.start_workers()
        self.wait_for_step(100)
        workers[1].send_signal(signal.SIGSTOP)
        workers[0].kill()
        self.check_ends(workers[0], -signal.SIGKILL)
        again = self.start_worker(0)
        self.check_ends(self.start_worker(1), 0)
        self.check_ends(again, 0)
        self.check_same_bits()
        self.check_has_served_again("worker 0 .* is lost")

    def test_stopped_worker_of_an_earlier_start_does_not_disturb_the_next(self):
        workers = self.start_workers()
        self.wait_for_step(100)
        workers[1].send_signal(signal.SIGSTOP)
        self.check_ends(workers[0], CLUSTER, "worker 1")
        again = self.start_workers()
        self.wait_for_step(400)
        workers[1].send_signal(signal.SIGCONT)
        self.check_ends(workers[1], CLUSTER)
        for worker in again:
            self.check_ends(worker, 0)
        self.check_same_bits()
        self.check_has_served_again("worker 1 .* is lost: no heartbeat")

    def test_workers_start_again_after_an_error_of_one(self):
        workers = [self.start_worker(0), self.start_worker(1, "--data_dir=nowhere")]
        self.check_ends(workers[0], CLUSTER)
        self.check_ends(workers[1], BAD_INPUT)
        self.check_goes_on()
        self.check_has_served_again("worker 1 has left")

    def test_workers_start_again_after_the_coordinator_was_killed(self):
        workers = self.start_workers()
        self.wait_for_step(100)
        self.coordinator.kill()
        for worker in workers:
            self.check_ends(worker, CLUSTER, "`mirrorflow coordinator` is lost")
        workers = self.start_workers()  # before the coordinator starts
        time.sleep(0.5)
        self.coordinator = self.start_coordinator()
        for worker in workers:
            self.check_ends(worker, 0)
        self.check_same_bits()
        self.check_ends(self.coordinator, 0)

    def test_stopped_workers_start_again(self):
        workers = self.start_workers()
        self.wait_for_step(100)
        workers[1].terminate()
        self.check_stops(workers, PREEMPTED, "SIGTERM")
        self.check_goes_on()
        self.check_has_served_again("worker [01] has left the cluster: stopped by SIGTERM")

    def test_signal_to_the_coordinator_stops_all_workers(self):
        for number, code in ((signal.SIGTERM, PREEMPTED), (signal.SIGINT, INTERRUPTED)):
            with self.subTest(number.name):
                self.setUp()
                workers = self.start_workers()
                self.wait_for_step(100)
                self.coordinator.send_signal(number)
                self.check_stops(workers, code, number.name)
                self.check_ends(self.coordinator, code, f"stopped by {number.name}: worker ")
                self.coordinator = self.start_coordinator()
                self.check_goes_on()
                self.check_ends(self.coordinator, 0)

    def test_signal_ends_a_coordinator_without_workers(self):
        self.coordinator.terminate()
        self.check_ends(self.coordinator, PREEMPTED, "stopped before all workers had registered")

    def test_second_signal_ends_the_coordinator_at_once(self):
        workers = [self.start_worker(0, "--progress_timeout=3s",
                                     MIRRORFLOW_FAILPOINTS="checkpoint/rename=hang#3"),
                   self.start_worker(1)]
        self.wait_for_step(200)
        time.sleep(0.2)  # the third save hangs
        self.coordinator.terminate()
        time.sleep(0.2)
        self.assertIsNone(self.coordinator.poll())
        self.coordinator.terminate()  # repeats the same request
        time.sleep(0.2)
        self.assertIsNone(self.coordinator.poll())
        self.coordinator.terminate()
        self.check_ends(self.coordinator, -signal.SIGTERM)
        for worker in workers:
            self.check_ends(worker, CLUSTER)

    def test_coordinator_ends_if_workers_do_not_start_again(self):
        self.coordinator.kill()
        self.coordinator = self.start_coordinator("--connect_timeout=3s")
        workers = self.start_workers()
        self.wait_for_step(100)
        workers[1].kill()
        self.check_ends(workers[0], CLUSTER)
        again = self.start_worker(0, "--connect_timeout=1s")
        self.check_ends(again, CLUSTER, "missing worker 1")
        self.check_ends(self.coordinator, CLUSTER, "missing worker 0, 1")


if __name__ == "__main__":
    programs.main()
