# SPDX-License-Identifier: Apache-2.0
"""Code that the peers of `mirrorflow bench data` share. They are started as `PEER.py TASK THREADS
FOLDER`, on one core per thread.

A step is a batch or, for `csv`, a whole pass, so that it includes opening and parsing the file. The
`loss` of a step is a mean over its last batch: of the labels for `jpeg`, whose pictures are random,
and of the features for the other tasks.

jpeg: decodes pictures in the order of their paths, crops 224x224 pixels at random, flips half of
    them, and converts them to floats in [0, 1]; batches of 64
csv, tfrecord: floats and an integer label, in order; batches of 256
"""

import sys

TASK, THREADS, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
CROP = 224
IMAGE_BATCH, BATCH = 64, 256


def steps_of(passes):
    """Returns run(steps), which reads batches, one pass after another."""
    batches = (batch for batch_of_pass in passes for batch in batch_of_pass)

    def run(steps):
        for _ in range(steps):
            x, label = next(batches)
        return label.mean() if TASK == "jpeg" else x.mean()

    return run


def passes_of(passes):
    """Returns run(steps), which reads whole passes."""

    def run(steps):
        for _ in range(steps):
            for x, _ in next(passes):
                pass
        return x.mean()

    return run
