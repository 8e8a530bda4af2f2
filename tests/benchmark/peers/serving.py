# SPDX-License-Identifier: Apache-2.0
"""The protocol and the clients that the peers of `mirrorflow bench serving` share.

A peer is started as `PEER.py MODEL THREADS CASE.npz`, with one core per client. The case holds one
example in `inputs`, and the weights (peer.py). The peer prints `version TEXT`, the logits of the
example as `logit NUMBER`, the time of an empty call as `call NANOSECONDS`, and `ready`. For each
line `serve SECONDS` on stdin, THREADS clients send requests in a closed loop for that long, and the
peer prints `served REQUESTS SECONDS P50 P99`, with the latencies in nanoseconds. It exits at the end
of its input.

Each client is a process with its own copy of the model, because threads would contend for the GIL:
on two cores, two TensorFlow threads answer fewer requests than one, and two ONNX Runtime threads a
few percent fewer than two processes. The overhead of the Python call remains. An empty call takes
the same path to a graph that only negates its input.
"""

import multiprocessing
import os
import sys
import time

import peer
import numpy as np

EMPTY_CALLS = 2000
WARM_UP_SECONDS = 0.2


def serve(request, seconds):
    """Calls `request` repeatedly for about `seconds`. Returns the start time and the latencies, in
    nanoseconds."""
    latencies = []
    began = last = time.perf_counter_ns()
    end = began + round(seconds * 1e9)
    while last < end:
        request()
        # One clock reading ends a request and starts the next.
        now = time.perf_counter_ns()
        latencies.append(now - last)
        last = now
    return began, np.array(latencies)


def serve_for(parent, make_request):
    """Runs a client process: serves for each duration that the parent sends, until it exits."""
    request = make_request()
    serve(request, WARM_UP_SECONDS)
    try:
        while True:
            parent.send(serve(request, parent.recv()))
    except EOFError:
        os._exit(0)  # skips framework teardown, which would disturb the next benchmark


def median_of_calls(request):
    """Returns the median time of a call, in nanoseconds."""
    times = []
    for _ in range(EMPTY_CALLS):
        began = time.perf_counter_ns()
        request()
        times.append(time.perf_counter_ns() - began)
    return np.median(times)


def talk(version, make_request, make_empty_call):
    """Runs the protocol. `make_request()` returns a function that computes the logits of a request,
    as an array; `make_empty_call()` returns one that makes an empty call. Both must be module-level
    functions, because client processes import the peer's module; so the peer must call this only
    as the main program."""
    context = multiprocessing.get_context("spawn")  # the frameworks are not fork-safe
    others = []
    for _ in range(int(sys.argv[2]) - 1):
        ours, theirs = context.Pipe()
        context.Process(target=serve_for, args=(theirs, make_request), daemon=True).start()
        theirs.close()  # the pipe closes when the client exits
        others.append(ours)
    peer.say("version", version)
    request = make_request()
    for logit in request().reshape(-1):
        peer.say("logit", repr(float(logit)))
    empty_call = make_empty_call()
    median_of_calls(empty_call)  # warms up
    peer.say("call", median_of_calls(empty_call))

    def serve_together(seconds):
        for other in others:
            other.send(seconds)
        return [serve(request, seconds)] + [other.recv() for other in others]

    serve_together(WARM_UP_SECONDS)
    peer.say("ready")
    for line in sys.stdin:
        word, seconds = line.split()
        assert word == "serve", line
        # All processes use the same monotonic clock.
        served = serve_together(float(seconds))
        end = max(began + latencies.sum() for began, latencies in served)
        wall = (end - min(began for began, _ in served)) * 1e-9
        latencies = np.concatenate([latencies for _, latencies in served])
        peer.say("served", len(latencies), wall, *np.percentile(latencies, [50, 99]))
