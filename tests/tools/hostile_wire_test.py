#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains over a connection that changes, repeats, drops or reorders frames between two workers, or
that breaks: both workers end in time and say where, and no bad data gets into a variable."""

import random
import struct
import time

import programs
import tcp_link
from programs import CLUSTER, own
from tcp_link import ACCEPTING, CONNECTING, FIELDS, LAYOUT, header_of, with_fields

STEPS, FAULTY_STEP = 8, 5
COLLECTIVE_TIMEOUT = 10
# Between hosts, timeouts are 25% longer. Only faults that drop bytes take that long to detect, plus
# up to one heartbeat.
BOUND = 1.25 * COLLECTIVE_TIMEOUT
HEARTBEAT = 4
TRAIN = ["--model=mlp", "--replicas=1", "--collective=tcp", f"--steps={STEPS}",
         "--checkpoint_every=1", f"--keep={STEPS}", f"--heartbeat_timeout={HEARTBEAT}s"]


class Fault:
    """change(a, b) arrives instead of the first two frames of a step that one end sends, and
    rest(frame) instead of each later frame."""

    def __init__(self, sender, change, rest=lambda frame: frame):
        self.sender, self.change, self.rest = sender, change, rest
        self.first = None
        self.time = None

    def __call__(self, sender, header, frame):
        if sender != self.sender or header.step < FAULTY_STEP:
            return frame
        if self.time is not None:
            return self.rest(frame)
        if self.first is None:
            self.first = frame
            return b""
        self.time = time.monotonic()
        return self.change(self.first, frame)


def flip(first, size):
    """Flips one bit of `size` bytes."""
    def change(a, b):
        spoilt = bytearray(a)
        generator = random.Random(first)
        spoilt[first + generator.randrange(size)] ^= 1 << generator.randrange(8)
        return spoilt + b
    return change


def flips():
    """Returns a change for each field of a header, and two for the payload."""
    kinds = list(FIELDS.values())
    for i, name in enumerate(FIELDS):
        yield name, flip(struct.calcsize("<" + "".join(kinds[:i])), struct.calcsize(kinds[i]))
    yield "the payload's begin", flip(LAYOUT.size, 4)
    yield "the payload's end", flip(-4, 4)


# The next two changes correct the header's checksum, which random damage would not do.
def earlier_incarnation(a, b):
    return with_fields(a, incarnation=header_of(a).incarnation - 1) + b


def huge_length(a, b):
    return with_fields(a, message_bytes=1 << 62) + b


CASES = (
    *((f"flipped bit of {name}", change, "DATA_LOSS", "damaged frame: ") for name, change in flips()),
    ("earlier incarnation", earlier_incarnation, "ABORTED", "a frame from another incarnation"),
    ("repeated frame", lambda a, b: a + a + b, "DATA_LOSS", "a frame is missing, repeated or"),
    ("missing frame", lambda a, b: b, "DATA_LOSS", "a frame is missing, repeated or"),
    ("reordered frames", lambda a, b: b + a, "DATA_LOSS", "a frame is missing, repeated or"),
    ("length of 2^62", huge_length, "INVALID_ARGUMENT", r"rank \d runs another collective; expected "
     rf"\d+ bytes of collective \d+ in step {FAULTY_STEP} from it, got {1 << 62} bytes"))


class HostileWireTest(programs.WorkersTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls()
        test.check_all_succeed(test.train("clean", lambda sender, header, frame: frame))
        test.doCleanups()
        cls.clean = test.variables("clean")

    def train(self, name, on_frame, timeout=COLLECTIVE_TIMEOUT):
        link = tcp_link.TcpLink(on_frame)
        self.addCleanup(link.close)
        return self.run_workers(
            lambda *args: {**own(*args), **link.environment}, 2,
            [*TRAIN, f"--checkpoint_dir={name}", f"--collective_timeout={timeout}s"])

    def variables(self, name):
        """Returns the file of each checkpoint, by the number of steps before it."""
        return {int(p.parent.name.removeprefix("step-")): p.read_bytes()
                for p in (self.root / name).glob("step-*/variables.safetensors")}

    def check_fault(self, name, fault, bound, error, timeout=COLLECTIVE_TIMEOUT):
        """Checks that both workers end within `bound` seconds after the fault, with this error."""
        results = self.train(name, fault, timeout)
        self.assertIsNotNone(fault.time)
        self.assertLess(time.monotonic() - fault.time, bound)
        self.check_all_fail(results, CLUSTER)
        for result in results:
            self.assertRegex(result.stderr.splitlines()[-1], "^ERROR " + error)
        saved = self.variables(name)
        self.assertIn(FAULTY_STEP - 1, saved)
        self.assertLessEqual(max(saved), FAULTY_STEP)
        for step, variables in saved.items():
            self.assertTrue(variables == self.clean[step], f"variables of step {step} differ")

    def test_clean_wire_changes_nothing(self):
        self.assertEqual(sorted(self.clean), list(range(1, STEPS + 1)))

    def test_changed_frames_are_found_at_once(self):
        for i, (name, change, code, what) in enumerate(CASES):
            sender, receiver = ((ACCEPTING, 1), (CONNECTING, 0))[i % 2]
            with self.subTest(f"{name}, sent by rank {1 - receiver}"):
                self.check_fault(
                    name, Fault(sender, change), BOUND,
                    rf"{code} .*connection of rank {receiver} to rank {1 - receiver}, "
                    rf"collective \d+( '[^']+')?: {what}")

    def test_broken_connection_ends_both_ends(self):
        def half_close(*_):
            raise EOFError

        def reset(*_):
            raise ConnectionResetError
        ends = "(0 to rank 1|1 to rank 0)"
        for name, change, what in (
                ("half-close", half_close, "the other end has closed the connection"),
                ("reset", reset, "cannot (receive|send): Connection reset by peer")):
            for sender in (ACCEPTING, CONNECTING):
                with self.subTest(f"{name} by the {sender} end"):
                    self.check_fault(
                        f"{name} {sender}", Fault(sender, change), BOUND,
                        rf"UNAVAILABLE (step \d+: )?connection of rank {ends}, "
                        rf"collective \d+( '[^']+')?: {what}")

    def test_dropped_bytes_end_both_workers_at_the_timeout(self):
        timeout = 2
        for sender, rank in ((ACCEPTING, 0), (CONNECTING, 1)):
            with self.subTest(f"sent by rank {rank}"):
                # The first frame is truncated in the middle. The sender can time out first: it
                # soon waits for the receiver's part of a later collective.
                fault = Fault(sender, lambda a, b: a[:len(a) - 2], rest=lambda frame: b"")
                self.check_fault(
                    f"dropped {sender}", fault, 1.25 * timeout + HEARTBEAT + 8,
                    r"DEADLINE_EXCEEDED .*rank ([01]) timed out after 2\.5\d*s in collective \d+ "
                    r"'.*'; expected \d+ bytes from rank (?!\1)[01]", timeout)


if __name__ == "__main__":
    programs.main()
