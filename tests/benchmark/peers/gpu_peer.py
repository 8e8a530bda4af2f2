# SPDX-License-Identifier: Apache-2.0
"""Code that the peers on a GPU share: flags, turns and output.

Without --serve, a peer prepares its variants, trains them in turns for --rounds rounds, in reverse
order every other round, and prints one line of JSON per variant. With --serve, it prints `ready` when
they are prepared. For every line that it reads, it runs one turn of each and prints `done`; it
prints the JSON when its input ends. This lets several programs take turns on one GPU.

For a variant that fails, or is not prepared within --seconds, the line gives the reason. Peak
memory is what the framework has allocated for a variant, without the memory that it caches.
"""

import argparse
import json
import signal
import statistics
import sys
import time
import traceback

import numpy as np

BEGAN = time.monotonic()
CHECKED_STEPS = 3  # steps whose losses are compared
LEARNING_RATE = 0.01  # for SGD in mlp, cnn and resnet50; only resnet50 uses MOMENTUM
MOMENTUM = 0.9
ADAM_LEARNING_RATE = 1e-4  # for language models
CLASSES = {"resnet50": 1000}
# (layers, width, heads, vocabulary, positions): GPT-2 with 124M parameters and its vocabulary rounded
# up to a multiple of 128, and a model so small that kernel launches matter.
LANGUAGE_MODELS = {"gpt2": (12, 768, 12, 50304, 1024), "transformer": (4, 256, 4, 8192, 256)}
TINY_LANGUAGE_MODEL = (2, 32, 2, 128, 16)
# Blocks in each stage, and the height and width of an image.
RESNET50 = ((3, 4, 6, 3), 224)
TINY_RESNET = ((1, 1, 1, 1), 32)
MLP_LAYERS = ((784, 512), (512, 512), (512, 10))
CNN_KERNELS = ((3, 3, 1, 32), (3, 3, 32, 64), (1600, 128), (128, 10))
DEFAULT_BATCH = {"mlp": 64, "cnn": 64, "resnet50": 64, "gpt2": 8, "transformer": 8}


def arguments(variants):
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=sorted(DEFAULT_BATCH), default="mlp")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="tf32")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--variants", default=",".join(variants))
    parser.add_argument("--case", help="batch and weights of mlp or cnn, as .npz")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--round_ms", type=float, default=150)
    parser.add_argument("--seconds", type=float, default=600, help="time limit for preparing all variants")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="tiny models, short turns")
    args = parser.parse_args()
    args.variants = args.variants.split(",")
    unknown = set(args.variants) - set(variants)
    if unknown:
        parser.error(f"--variants: expected any of {', '.join(variants)}, got {unknown}")
    args.batch = args.batch or (2 if args.smoke else DEFAULT_BATCH[args.model])
    if args.smoke:
        args.round_ms, args.rounds = 1, min(args.rounds, 7)
    args.language_model = LANGUAGE_MODELS.get(args.model)
    if args.language_model and args.smoke:
        args.language_model = TINY_LANGUAGE_MODEL
    args.resnet = TINY_RESNET if args.smoke else RESNET50
    return args


class Case:
    """Holds the inputs, labels and, for mlp and cnn, weights: each layer's kernel and bias."""

    def __init__(self, args):
        random = np.random.default_rng(1)
        self.weights = []
        if args.case:
            with np.load(args.case) as arrays:
                self.inputs, self.labels = arrays["inputs"], arrays["labels"]
                self.weights = [arrays[n] for n in arrays.files if n not in ("inputs", "labels")]
            args.batch = len(self.inputs)
            return
        if args.language_model:
            _, _, _, vocabulary, positions = args.language_model
            tokens = random.integers(0, vocabulary, (args.batch, positions + 1), np.int32)
            self.inputs, self.labels = tokens[:, :-1].copy(), tokens[:, 1:].copy()
            return
        shape = {"mlp": (784,), "cnn": (28, 28, 1), "resnet50": (args.resnet[1],) * 2 + (3,)}
        self.inputs = random.random((args.batch,) + shape[args.model], np.float32)
        classes = CLASSES.get(args.model, 10)
        self.labels = random.integers(0, classes, args.batch, np.int32)
        for kernel in {"mlp": MLP_LAYERS, "cnn": CNN_KERNELS}.get(args.model, ()):
            scale = np.sqrt(2 / np.prod(kernel[:-1]))
            self.weights.append((random.standard_normal(kernel) * scale).astype(np.float32))
            self.weights.append(np.zeros(kernel[-1], np.float32))

    def pairs(self):
        return list(zip(self.weights[0::2], self.weights[1::2]))


class Variant:
    """`run(steps)` trains, waits for completion and returns the last loss."""

    def __init__(self, name, run, peak_memory):
        self.name = name
        self.run = run
        self.peak_memory = peak_memory
        self.rounds_ms = []
        self.losses = []
        self.first_step_ms = 0.0
        self.steps = 1

    def warm_up(self, round_ms, began):
        for i in range(CHECKED_STEPS):
            self.losses.append(float(self.run(1)))
            if i == 0:
                self.first_step_ms = (time.perf_counter() - began) * 1e3
        while True:
            start = time.perf_counter()
            self.run(self.steps)
            ms = (time.perf_counter() - start) * 1e3
            if ms >= round_ms / 2:
                break
            self.steps *= 2
        self.steps = max(1, round(self.steps * round_ms / ms))

    def turn(self):
        start = time.perf_counter()
        self.run(self.steps)
        self.rounds_ms.append((time.perf_counter() - start) * 1e3 / self.steps)


class TooLate(BaseException):
    """Not an Exception: PyTorch's compiler would catch it and continue with its next trial."""


def prepare(name, args, make, deadline):
    """Returns a Variant, or the reason why it could not be prepared."""

    def too_late(signum, frame):
        raise TooLate(f"the variants were not all prepared within {args.seconds:.0f} s")

    signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, deadline - time.monotonic()))
    try:
        began = time.perf_counter()
        variant = make(name)
        variant.warm_up(args.round_ms, began)
        return variant
    except (Exception, TooLate) as error:  # any error; the other variants are still measured
        traceback.print_exc(file=sys.stderr)
        return f"{type(error).__name__}: {error}".splitlines()[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def serve(args, framework, version, make):
    """Prepares, measures and prints, as described above."""
    deadline = BEGAN + args.seconds
    prepared = {name: prepare(name, args, make, deadline) for name in args.variants}
    variants = [v for v in prepared.values() if isinstance(v, Variant)]
    turns = sys.stdin if args.serve else range(args.rounds)
    if args.serve:
        print("ready", flush=True)
    for _ in turns:
        for variant in variants:
            variant.turn()
        variants.reverse()
        if args.serve:
            print("done", flush=True)
    for name, variant in prepared.items():
        line = {"name": f"{framework} {name}", "version": version, "model": args.model,
                "batch": args.batch, "precision": args.precision, "device": args.device}
        if isinstance(variant, str):
            line["skipped"] = variant
        elif variant.rounds_ms:
            ms = variant.rounds_ms
            quartiles = statistics.quantiles(ms, n=4) if len(ms) > 1 else ms * 3
            line.update(median_ms=statistics.median(ms), q1_ms=quartiles[0], q3_ms=quartiles[2],
                        rounds_ms=ms, losses=variant.losses,
                        first_step_ms=variant.first_step_ms, peak_memory=variant.peak_memory())
        else:
            line["skipped"] = "no turn was requested"
        print(json.dumps(line), flush=True)
