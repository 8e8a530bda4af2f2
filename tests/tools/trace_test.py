#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of several workers: one file, on one clock."""

import collections
import dataclasses
import itertools
import json
import re
import statistics
import subprocess
import unittest

import programs
from programs import FASHION_MNIST, MIRRORFLOW, TRAIN_TINY

SECONDS = 60  # no run takes 10 s; a longer run hangs
OF_ALL_RANKS = (1 << 48) - 1  # mask of the id bits that are equal on all ranks


@dataclasses.dataclass
class Interval:
    begin: float  # in microseconds
    end: float


class Trace:
    """A trace file, as a viewer reads it."""

    def __init__(self, path):
        file = json.loads(path.read_text())
        self.events = file["traceEvents"]
        self.clocks = file["otherData"]
        self.processes = {e["pid"]: e["args"]["name"] for e in self.events
                          if e["name"] == "process_name"}

    def error_us(self, worker):
        """Returns how far a worker's clock may be off."""
        text = self.clocks[f"clock of worker {worker}"]
        return float(re.fullmatch(r"-?[\d.]+ us ahead of worker 0, error at most ([\d.]+) us",
                                  text)[1])

    def spans(self, rank, category):
        return [(e["name"], Interval(e["ts"], e["ts"] + e["dur"])) for e in self.events
                if e["ph"] == "X" and e["pid"] == rank and e["cat"] == category]

    def flights(self):
        """Returns, by (name, number) of a collective and by rank, when it was in flight."""
        flights = collections.defaultdict(dict)
        for e in self.events:
            if e["ph"] not in "be":
                continue
            of_rank = flights[e["name"], int(e["id"]) & OF_ALL_RANKS]
            flight = of_rank.setdefault(e["pid"], Interval(None, None))
            setattr(flight, "begin" if e["ph"] == "b" else "end", e["ts"])
        return flights


class TraceTest(programs.ProgramTest):

    def launch(self, *command, new_files):
        """Runs two workers."""
        before = self.files()
        result = subprocess.run([MIRRORFLOW, "launch", "-n", "2", "--", *command], cwd=self.root,
                                timeout=SECONDS, text=True, check=False, capture_output=True,
                                stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.files() - before, set(new_files))

    def check_workers(self, name, replicas, steps):
        """Checks that the trace shows both workers' replicas, with collectives at the same time."""
        trace = Trace(self.root / name)
        self.assertEqual(trace.processes, {
            rank: f"worker {rank // replicas}, replica {rank} (CPU:{rank % replicas})"
            for rank in range(2 * replicas)})
        for rank in range(2 * replicas):
            self.assertEqual(len(trace.spans(rank, "step")), steps, rank)
        flights = trace.flights()
        self.assertGreaterEqual(len(flights), steps)
        for collective, of_rank in flights.items():
            self.assertEqual(len(of_rank), 2 * replicas, collective)
            begin = max(flight.begin for flight in of_rank.values())
            end = min(flight.end for flight in of_rank.values())
            self.assertLess(begin, end + trace.error_us(1), (collective, of_rank))
        return trace

    def test_training_program_writes_one_trace_of_all_workers(self):
        for collective in "tcp", "shared_memory":
            with self.subTest(collective):
                name = f"{collective}.json"
                self.launch(FASHION_MNIST, *TRAIN_TINY, "--model=mlp", "--replicas=2",
                            f"--collective={collective}", f"--trace={name}", new_files=[name])
                self.check_workers(name, replicas=2, steps=4)

    def test_run_writes_one_trace_of_all_workers(self):
        files = ["mlp.pb", "start.safetensors"]
        self.run_program(FASHION_MNIST, *TRAIN_TINY, "--model=mlp", "--replicas=1",
                         f"--save_graph={files[0]}", f"--save_variables={files[1]}",
                         new_files=files)
        self.write("images.npy", programs.floats([10, 784], *[0.5] * 7840))
        self.write("labels.npy", programs.npy("<i4", [10], bytes(40)))
        run = [MIRRORFLOW, "run", "--graph=mlp.pb", "--variables=start.safetensors",
               "--feed=images=images.npy,labels=labels.npy", "--target=train/NoOp", "--steps=5",
               "--replicas=1"]
        self.launch(*run, "--trace=run.json", new_files=["run.json"])
        self.check_workers("run.json", replicas=1, steps=3)
        self.launch(*run, "--trace=of{worker}.json", new_files=["of0.json", "of1.json"])
        for rank in range(2):
            trace = Trace(self.root / f"of{rank}.json")
            self.assertEqual(trace.processes, {rank: f"worker {rank}, replica {rank} (CPU:0)"})

    def test_gradients_travel_in_the_backward_pass_and_updates_end_in_the_next_forward_pass(self):
        result = subprocess.run(
            [MIRRORFLOW, "bench", "step", "--model=big", "--batch_size=64", "--workers=2",
             "--replicas=1", "--collective=tcp", "--rounds=7", "--trace=big.json"], cwd=self.root,
            timeout=3 * SECONDS, text=True, check=False, capture_output=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        trace = self.check_workers("big.json", replicas=1, steps=20)
        for rank in range(2):
            steps = [when for _, when in trace.spans(rank, "step")]
            gradients = [when for name, when in trace.spans(rank, "kernel")
                         if name.startswith("gradients/")]
            updates = [of_rank[rank] for (name, _), of_rank in trace.flights().items()
                       if name.startswith("train/")]
            first_starts = []  # as fractions of the backward pass's work, which waits do not change
            for step, next_step in itertools.pairwise(steps):
                backward = [g for g in gradients if step.begin <= g.begin < step.end]
                flights = [u for u in updates if step.begin <= u.begin < step.end]
                first = min(f.begin for f in flights)
                first_starts.append(sum(g.end - g.begin for g in backward if g.begin < first) /
                                    sum(g.end - g.begin for g in backward))
                next_backward = min(g.begin for g in gradients if g.begin >= next_step.begin)
                last_end = max(f.end for f in flights)
                self.assertTrue(next_step.begin < last_end < next_backward, (step, last_end))
            self.assertLess(statistics.median(first_starts), 0.5)


if __name__ == "__main__":
    programs.main()
