# SPDX-License-Identifier: Apache-2.0
"""The protocol that the peers of `mirrorflow bench step --graph` share.

A peer is started as `PEER.py GRAPH THREADS CASE.npz` and runs the step with that many threads, on as
many cores. GRAPH is a file with a GraphDef, as text if its name ends with `.pbtxt` or `.pb.txt`. The
case holds the values of the feeds in `feed/TENSOR`, Mirrorflow's results in `fetch/TENSOR`, and the
values of the variables before the step in `variable/NODE`. A TENSOR is NODE:OUTPUT; the NODE of a
variable is its handle. A training step also has `target/NODE`, an operation that it runs.

The peer prints `version TEXT`, `settings TEXT`, and for each fetch `difference TENSOR NUMBER`: the
largest difference from Mirrorflow's result, divided by the largest absolute value in that result.
It also prints the time of an empty call, a call from Python of a graph that only negates a number,
as `call NANOSECONDS`. The rest of the protocol is that of peer.py: `ready`, then `ran STEPS SECONDS` for each
`run SECONDS`.
"""

import sys
import time

import peer  # before other libraries, because it sets the cores
import numpy as np

import serving

TRIAL_SECONDS, MIN_TRIALS = 0.5, 2


class Case:
    """The step of a graph, with the values of its feeds and variables, the expected fetches, and the
    names of its targets."""

    def __init__(self, graph, path):
        self.graph = graph
        self.feeds, self.fetches, self.variables, self.targets = {}, {}, {}, {}
        kinds = {"feed": self.feeds, "fetch": self.fetches, "variable": self.variables,
                 "target": self.targets}
        with np.load(path) as arrays:
            for file in arrays.files:
                kind, name = file.split("/", 1)
                kinds[kind][name] = arrays[file]


def case_of_arguments():
    return Case(sys.argv[1], sys.argv[3])


def difference(value, expected):
    if value.shape != expected.shape:
        raise SystemExit(f"wrong shape of a fetch; expected {expected.shape}, got {value.shape}")
    if value.size == 0:
        return 0.0
    value, expected = value.astype(np.float64), expected.astype(np.float64)
    apart = abs(value - expected).max()
    return apart / abs(expected).max() if apart != 0 else 0.0


def seconds_per_call(step):
    """Returns how long the fastest call takes, without the first one, which compiles."""
    step()
    times = []
    end = time.perf_counter() + TRIAL_SECONDS
    while len(times) < MIN_TRIALS or time.perf_counter() < end:
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return min(times)


def talk(case, version, settings, step, empty_call):
    """Runs the protocol. `step()` runs the step and returns its fetches, in the case's order;
    `empty_call()` makes an empty call."""
    peer.say("version", version)
    peer.say("settings", settings)
    for name, value in zip(case.fetches, step(), strict=True):
        peer.say("difference", name, difference(np.asarray(value), case.fetches[name]))
    serving.median_of_calls(empty_call)  # warms up
    peer.say("call", serving.median_of_calls(empty_call))

    def run(steps):
        for _ in range(steps):
            step()

    peer.serve_runs(run)
