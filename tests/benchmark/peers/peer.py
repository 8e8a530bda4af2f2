# SPDX-License-Identifier: Apache-2.0
"""Code that all peers share: the case, and the protocol with `mirrorflow bench`.

A peer is started as `PEER.py MODEL REPLICAS CASE.npz [ADDRESSES WORKER]`. The case holds `inputs` and
`labels` of the global batch, and the initial weights in the order of their creation.
The peer prints `version TEXT`, the losses of its first steps as `loss NUMBER`, and `ready`. For each
line `run SECONDS` that it reads, it trains for about that long and prints `ran STEPS SECONDS`. It
exits at the end of its input.

With several workers, a peer is started once per worker, on the worker's host. ADDRESSES are the
HOST:PORT of all workers, separated by commas. The workers divide the replicas among themselves, and
only worker 0 reads and prints.
"""

import os
import sys
import threading
import time

ADDRESSES, WORKER = (sys.argv[4].split(","), int(sys.argv[5])) if len(sys.argv) > 4 else ([""], 0)
WORKERS = len(ADDRESSES)

# Use one core per replica. Set this before any library queries the number of cores.
LOCAL_REPLICAS = int(sys.argv[2]) // WORKERS
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[WORKER * LOCAL_REPLICAS:][:LOCAL_REPLICAS])

import numpy as np

LEARNING_RATE = 0.01
CHECKED_STEPS = 3
RESNET_STRIDES = [1, 1, 1, 2, 1, 1, 2, 1, 1]
RESNET50_BLOCKS = [(1 if stage == 0 or block > 0 else 2, block == 0)
                   for stage, blocks in enumerate([3, 4, 6, 3]) for block in range(blocks)]
MOVING_FACTOR, EPSILON = 0.01, 1e-3  # for normalisation
TRANSFORMERS = {"transformer": (4, 4), "gpt2": (12, 12)}  # number of blocks, and of heads
CHAIN_LENGTH = 1000


class Case:
    """One model with its weights and its batch, as arrays.

    mlp, cnn, big: the kernel and bias of each layer. A kernel of rank 4, [h, w, in, out], belongs to
        a 3x3 convolution without padding, followed by ReLU and max-pooling; all other layers,
        except the last one, are followed by ReLU.
    lstm: one kernel for [input, output] and all gates in the order input, forget, new, output, with
        its bias; then the kernel and bias of the layer that classifies the last output.
    resnet: the kernel, gamma and beta of each convolution, with its mean and variance in `moving`;
        then the kernel and bias of the last layer. RESNET_STRIDES are the strides of its blocks of
        two convolutions.
    resnet50, resnet50_64: the same for 53 convolutions. The first, 7x7 with stride 2, is followed by
        max-pooling, 3x3 with stride 2. RESNET50_BLOCKS are the stride of each block's 3x3
        convolution, which is between two 1x1 convolutions, and whether the block's shortcut is a
        1x1 convolution with the same stride, whose weights come last.
    transformer, gpt2: the embeddings of tokens and of positions; for each block, the gamma and beta
        of a normalisation, the kernel and bias of query, key, value and output, another
        normalisation, and the kernel and bias of two layers with Gelu (exact) in between; then the
        last normalisation. The logits are products with the embeddings of tokens. TRANSFORMERS has
        the numbers of blocks and heads.
    chain: no weights; CHAIN_LENGTH sines of one number.
    """

    def __init__(self, model, replicas, path):
        with np.load(path) as arrays:
            self.inputs, self.labels = arrays["inputs"], arrays["labels"]
            weights = [arrays[name] for name in arrays.files if name not in ("inputs", "labels")]
        self.model = model
        self.replicas = replicas
        end = len(weights) - 2 if model.startswith("resnet") else 0
        moves = [i < end and i % 5 > 2 for i in range(len(weights))]
        self.moving = [w for w, m in zip(weights, moves) if m]
        self.weights = [w for w, m in zip(weights, moves) if not m]

    def rows_of(self, replica):
        """Returns the rows of the batch that a replica trains on."""
        rows = len(self.inputs) // self.replicas
        part = slice(replica * rows, (replica + 1) * rows)
        return self.inputs[part], self.labels[part]


def pairs(weights):
    """Returns the kernel and bias of each layer."""
    return list(zip(weights[0::2], weights[1::2]))


def case_of_arguments():
    return Case(sys.argv[1], int(sys.argv[2]), sys.argv[3])


def say(*words):
    print(*words, flush=True)


def follow(run, agree):
    """Repeats what worker 0 does until the input ends."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    while True:
        run(agree(0))


def talk(version, run, agree=lambda steps: steps):
    """Runs the protocol. `run(steps)` trains and returns the last loss as a number; `agree(steps)`
    returns the number that worker 0 passes, on all workers."""
    if WORKER > 0:
        return follow(run, agree)
    say("version", version)
    for _ in range(CHECKED_STEPS):
        say("loss", repr(float(run(agree(1)))))
    serve_runs(run, agree)


def serve_runs(run, agree=lambda steps: steps):
    """Warms up, says `ready`, and answers each `run SECONDS`. The arguments are those of `talk`."""
    steps = 1
    while True:
        began = time.perf_counter()
        run(agree(steps))
        seconds = time.perf_counter() - began
        if seconds > 0.2:
            break
        steps *= 2
    step_seconds = seconds / steps
    say("ready")
    for line in sys.stdin:
        word, wanted = line.split()
        assert word == "run", line
        steps = max(1, round(float(wanted) / step_seconds))
        steps = agree(steps)
        began = time.perf_counter()
        run(steps)
        say("ran", steps, time.perf_counter() - began)
