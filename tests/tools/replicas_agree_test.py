#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains `fashion_mnist` on real images with 1, 2, 3, 4 and 8 replicas, which must agree.

Usage: replicas_agree_test.py PROGRAM MODEL STEPS

Losses must agree step by step to a relative 1e-4 (3, 4 and 8 replicas split 250 rows unevenly), and
two runs with the same flags bit for bit.
"""
import os
import subprocess
import sys

TOLERANCE = 1e-4


def losses(program, model, steps, replicas):
    log = os.path.join(os.environ["TEST_TMPDIR"], f"{model}.log")
    command = [program, f"--model={model}", f"--replicas={replicas}", f"--steps={steps}",
               "--seed=7", "--global_batch_size=250", f"--loss_log={log}"]
    subprocess.run(command, check=True, timeout=200, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    with open(log) as lines:
        return [line.split()[1] for line in lines]


def main(program, model, steps):
    one = losses(program, model, steps, 1)
    assert len(one) == int(steps), f"{len(one)} losses, expected {steps}"
    assert float(one[-1]) < float(one[0]), "nothing was learned"
    for replicas in (2, 3, 4, 8):
        many = losses(program, model, steps, replicas)
        apart = [abs(float(a) - float(b)) / float(a) for a, b in zip(one, many, strict=True)]
        worst = max(apart)
        print(f"{model}, {replicas} replicas: {worst:.1e} apart at step {apart.index(worst) + 1}")
        assert worst <= TOLERANCE
        if replicas == 3:
            assert losses(program, model, steps, 3) == many, "two runs differ"


main(*sys.argv[1:])
