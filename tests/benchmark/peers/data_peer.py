# SPDX-License-Identifier: Apache-2.0
"""What the peers of `mirrorflow bench data` share. They are started as `PEER.py TASK THREADS FOLDER`
on as many cores as threads.

A step is a batch, or a whole pass for `csv`, so that opening and parsing the file counts. The
`loss` of a step is the mean of its last batch: of the labels for `jpeg`, whose pictures are random,
and of the features for the others.

jpeg: decodes pictures in the order of their paths, cuts out 224x224 pixels at random, flips half of
    them, and makes floats in [0, 1]; batches of 64
csv, tfrecord: floats and an integer label, in order; batches of 256
"""

import sys

TASK, THREADS, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
CROP = 224
IMAGE_BATCH, BATCH = 64, 256


def steps_of(passes):
    """Returns run(steps), which takes batches of one pass after another."""
    batches = (batch for batch_of_pass in passes for batch in batch_of_pass)

    def run(steps):
        for _ in range(steps):
            x, label = next(batches)
        return label.mean() if TASK == "jpeg" else x.mean()

    return run


def passes_of(passes):
    """Returns run(steps), which takes whole passes."""

    def run(steps):
        for _ in range(steps):
            for x, _ in next(passes):
                pass
        return x.mean()

    return run
