#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers fail in the middle of training. The other workers end in time and name the culprit."""

import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

import programs
from programs import CLUSTER, USAGE, free_port

SECONDS = 60  # far longer than any job takes
HEARTBEAT = 2
# How much longer than the timeouts a job can take. On an idle machine, it takes one second longer.
SLACK = 8
WORKERS = 3
INTERNAL = 70


class Proxy:
    """Forwards connections to a port of this host until told to break them."""

    def __init__(self, to_port):
        self.to_port = to_port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pairs = []
        self.mode = "forward"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                inner, _ = self.listener.accept()
            except OSError:
                return  # closed
            try:
                outer = socket.create_connection(("127.0.0.1", self.to_port))
            except ConnectionRefusedError:  # the service starts later
                inner.close()
                continue
            self.pairs.append((inner, outer))
            for a, b in ((inner, outer), (outer, inner)):
                threading.Thread(target=self.forward, args=(a, b), daemon=True).start()

    def forward(self, a, b):
        try:
            while data := a.recv(65536):
                if self.mode == "forward":
                    b.sendall(data)
        except OSError:
            pass

    def break_connections(self, how, then=None):
        self.mode = then or how  # all modes except "forward" discard incoming bytes
        pairs, self.pairs = self.pairs, []
        for inner, outer in pairs:
            if how == "half-close":
                inner.shutdown(socket.SHUT_WR)
            elif how == "reset":
                for end in (inner, outer):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.shutdown(socket.SHUT_RD)  # ends the thread that reads
                    end.close()


class FailuresTest(programs.ProgramTest):

    def start(self, *flags, coordinator_port=None, **variables):
        """Starts workers that train until they are stopped, and waits until they are training."""
        (self.root / "losses.log").unlink(missing_ok=True)
        port = coordinator_port or free_port()
        workers = []
        for rank in range(WORKERS):
            environment = {**os.environ, "MIRRORFLOW_NUM_WORKERS": str(WORKERS),
                           "MIRRORFLOW_WORKER_INDEX": str(rank),
                           "MIRRORFLOW_COORDINATOR": f"127.0.0.1:{port}",
                           "MIRRORFLOW_ERROR_FILE": str(self.root / f"error{rank}.json"),
                           **variables}
            command = [programs.FASHION_MNIST, *programs.TRAIN_TINY, "--model=mlp", "--replicas=1",
                       "--steps=1000000000", f"--heartbeat_timeout={HEARTBEAT}s",
                       "--loss_log=losses.log", *flags]
            workers.append(subprocess.Popen(command, cwd=self.root, env=environment, text=True,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
        self.addCleanup(lambda: [w.kill() for w in workers])
        self.wait_for_steps(10)
        return workers

    def num_steps(self):
        log = self.root / "losses.log"
        return log.read_text().count("\n") if log.exists() else 0

    def wait_for_steps(self, count):
        programs.wait_until(lambda: self.num_steps() >= count, f"{count} steps")

    def check_others_end(self, workers, rank, expected, code="UNAVAILABLE", timeout=HEARTBEAT):
        """Checks that all workers except `rank` name the culprit at the end of their output."""
        begin = time.monotonic()
        for other, worker in enumerate(workers):
            if other == rank:
                continue
            err = worker.communicate(timeout=SECONDS)[1]
            self.assertLess(time.monotonic() - begin, timeout + SLACK)
            self.assertEqual(worker.returncode, CLUSTER, err)
            self.assertRegex(err.splitlines()[-1], rf"^ERROR {code} (step \d+: )?{expected}")

    def test_stopped_worker_is_named_within_the_heartbeat_timeout(self):
        for collective, ranks in (("shared_memory", range(WORKERS)), ("tcp", range(WORKERS)),
                                  ("ucx", (1,))):
            for rank in ranks:
                with self.subTest(f"worker {rank}, {collective}"):
                    workers = self.start(f"--collective={collective}")
                    workers[rank].send_signal(signal.SIGSTOP)
                    self.check_others_end(
                        workers, rank,
                        r"worker 0 \(process \d+ on .*\) is lost according to worker [12]: no answer from "
                        "the coordination service"
                        if rank == 0 else
                        rf"worker {rank} \(process {workers[rank].pid} on .*\) is lost: "
                        r"no heartbeat for 2\.\d s, no progress since step \d+")
                    # The stopped worker learns that the others have continued without it.
                    workers[rank].send_signal(signal.SIGCONT)
                    err = workers[rank].communicate(timeout=SECONDS)[1]
                    self.assertEqual(workers[rank].returncode, CLUSTER, err)
    
    def test_slow_worker_is_a_warning(self):
        for rank in (0, 1):
            with self.subTest(f"worker {rank}"):
                workers = self.start("--heartbeat_timeout=6s")
                workers[rank].send_signal(signal.SIGSTOP)
                warning = ""
                if rank == 1:
                    while "is slow" not in warning:
                        warning = workers[0].stderr.readline()
                        self.assertTrue(warning, "no warning")
                else:
                    time.sleep(1)
                workers[rank].send_signal(signal.SIGCONT)
                self.wait_for_steps(self.num_steps() + 20)
                for worker in workers:
                    self.assertIsNone(worker.poll())
                    # Otherwise, a worker that is still running would report the death of a worker
                    # killed earlier.
                    worker.send_signal(signal.SIGSTOP)
                for worker in workers:
                    worker.kill()
                errors = [worker.communicate(timeout=SECONDS)[1] for worker in workers]
                if rank == 1:
                    self.assertRegex(warning, r"WARNING: worker 1 \(process \d+ on .*\) is slow: "
                                              "no heartbeat")
                self.assertNotIn("ERROR", "".join(errors))

    def test_killed_worker_is_named_at_once(self):
        for rank in range(WORKERS):
            with self.subTest(f"worker {rank}"):
                workers = self.start()
                workers[rank].kill()
                self.check_others_end(workers, rank, f"worker {rank} .*is lost")

    def test_hanging_worker_is_named_and_ends(self):
        for collective, timeout, place in (
                # The hang is detected by a worker that waits in a collective, or by the lack of
                # progress.
                ("shared_memory", "collective", "session/run"),
                ("shared_memory", "progress", "session/run"),
                ("tcp", "collective", "session/run"),
                ("tcp", "progress", "session/run"),
                ("ucx", "progress", "session/run"),
                ("shared_memory", "collective", "train/step")):
            with self.subTest(f"{collective}, {timeout}, {place}"):
                rank = 1
                workers = self.start(f"--collective={collective}", f"--{timeout}_timeout=2s",
                                     *(["--progress_timeout=4s"] * (place == "train/step")),
                                     MIRRORFLOW_FAILPOINTS=f"{place}=hang@{rank}#20")
                named = (rf"worker {rank} \(process {workers[rank].pid} on .*\): no progress since "
                         r"step \d+, collective \d+ '.*'; worker \d has reached step 20")
                # Finally, the hanging worker also ends by itself.
                self.check_others_end(workers, None, named, "DEADLINE_EXCEEDED", 2 + 4)
                # Between hosts, updates of the last step may still be in flight.
                self.check_error_files(rank, in_flight=collective != "shared_memory")

    def check_error_files(self, culprit, in_flight):
        for rank in range(WORKERS):
            error = json.loads((self.root / f"error{rank}.json").read_text())
            self.assertEqual(error["code"], "DEADLINE_EXCEEDED")
            self.assertIn(f"worker {culprit}", error["message"])
            self.assertEqual(error["rank"], culprit)
            self.assertEqual(error.get("cause"), None if rank == culprit else "another worker")
            self.assertIn("Trainer", error["stack"])
            collectives = error["collectives"]
            self.assertEqual(len(collectives), 64)
            if rank == culprit:
                self.assertTrue(in_flight or all(c["finished"] for c in collectives))
            else:
                self.assertIn(culprit, collectives[-1]["missing_ranks"])
                self.assertFalse(collectives[-1]["finished"])
                self.assertEqual(collectives[0]["missing_ranks"], [])

    def test_cleanup_that_hangs_ends(self):
        for rank in (0, 1):
            with self.subTest(f"worker {rank}"):
                workers = self.start("--steps=20",
                                     MIRRORFLOW_FAILPOINTS=f"cluster/leave=hang@{rank}")
                begin = time.monotonic()
                for other, worker in enumerate(workers):
                    err = worker.communicate(timeout=SECONDS)[1]
                    self.assertEqual(worker.returncode, INTERNAL if other == rank else 0, err)
                    if other == rank:
                        self.assertIn("ERROR INTERNAL cleanup: ", err)
                        self.assertIn("~MultiWorkerMirroredStrategy", err)
                self.assertLess(time.monotonic() - begin, 2 * HEARTBEAT + SLACK)

    def test_broken_connection_to_the_service_is_replaced(self):
        port = free_port()
        proxy = Proxy(port)
        workers = self.start(f"--bind=127.0.0.1:{port}", coordinator_port=proxy.port)
        for how in ("half-close", "reset", "half-close"):
            with self.subTest(how):
                proxy.break_connections(how, then="forward")
                programs.wait_until(lambda: len(proxy.pairs) == WORKERS - 1, "new connections")
                self.wait_for_steps(self.num_steps() + 100)
                self.assertEqual([worker.poll() for worker in workers], [None] * WORKERS)
        proxy.listener.close()

    def test_lost_network_to_the_service_ends_both_sides(self):
        for how in ("drop", "half-close", "reset"):
            with self.subTest(how):
                port = free_port()
                proxy = Proxy(port)
                workers = self.start(f"--bind=127.0.0.1:{port}", coordinator_port=proxy.port)
                proxy.break_connections(how)
                begin = time.monotonic()
                for worker in workers:
                    err = worker.communicate(timeout=SECONDS)[1]
                    self.assertLess(time.monotonic() - begin, HEARTBEAT + SLACK)
                    self.assertEqual(worker.returncode, CLUSTER, err)
                    # Either the service or another worker notices the loss first, in a step or between epochs.
                    # A worker that notices it late can find that another one has already left.
                    self.assertRegex(
                        err.splitlines()[-1],
                        r"^ERROR (UNAVAILABLE (step \d+: )?"
                        r"(worker [12] \(process \d+ on .*\) is lost: "
                        "(no heartbeat|its connection to the coordination service has ended)"
                        r"|worker 0 \(process \d+ on .*\) is lost according to worker [12]: )"
                        r"|ABORTED (step \d+: )?rank [12] has left its communicator)")
                proxy.listener.close()

    def test_timeout_out_of_range_is_a_usage_error(self):
        result = subprocess.run(
            [programs.FASHION_MNIST, *programs.TRAIN_TINY, "--heartbeat_timeout=1ms"],
            cwd=self.root, text=True, capture_output=True, timeout=SECONDS, check=False,
            env={**os.environ, "MIRRORFLOW_NUM_WORKERS": "2", "MIRRORFLOW_WORKER_INDEX": "0",
                 "MIRRORFLOW_COORDINATOR": f"127.0.0.1:{free_port()}"})
        self.assertEqual(result.returncode, USAGE, result.stderr)
        self.assertIn("--heartbeat_timeout: out of range", result.stderr)


if __name__ == "__main__":
    programs.main()
