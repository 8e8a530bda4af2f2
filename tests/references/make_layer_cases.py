# SPDX-License-Identifier: Apache-2.0
"""Writes layers/*.npz: results and gradients of Keras' layers, in double precision.

    make_layer_cases.py [FAMILY...]

The families are the modules in layers/. A file has, for each case of its family:

    CASE/y         the output
    CASE/dx0, …    the gradient of sum(y * dy) for each floating-point input
    CASE/d:NAME    the same for each trainable weight; NAME is its path without the layer's name

The operands are not stored. Other floating-point variables are also operands. Each operand is a
sequence of uniform numbers in [-1, 1) that depends only on its name, `CASE/x0`, `CASE/dy` or
`CASE/NAME`, so the test draws the same numbers.
"""

import importlib
import os
import pathlib
import sys

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # TensorFlow's own kernels vary less between machines

import keras
import numpy as np
import tensorflow as tf

_FOLDER = pathlib.Path(__file__).resolve().parent / "layers"
_FAMILIES = sorted(p.stem for p in _FOLDER.glob("*.py") if not p.stem.startswith("_"))
_MASK = 2**64 - 1


def _seed(name):
    """Returns the 64-bit FNV-1a hash of the name."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = ((seed ^ byte) * 0x100000001B3) & _MASK
    return seed


def _numbers(name, count):
    """Yields the numbers of SplitMix64 with the seed of the name."""
    state = _seed(name)
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        yield z ^ (z >> 31)


def _uniform(name, shape):
    values = [2 * ((z >> 11) / 2**53) - 1 for z in _numbers(name, int(np.prod(shape)))]
    return np.float64(np.float32(values)).reshape(shape)


def _input(name, spec):
    """Returns the input for a shape, or for (shape, limit): integers below the limit."""
    if not isinstance(spec[0], tuple):
        return _uniform(name, spec)
    shape, limit = spec
    return np.int32([z % limit for z in _numbers(name, int(np.prod(shape)))]).reshape(shape)


def _path(weight):
    return weight.path.partition("/")[2]


def _run(case):
    """Returns the arrays of a case."""
    keras.utils.clear_session()
    inputs = [
        tf.constant(_input(f"{case.name}/x{i}", spec)) for i, spec in enumerate(case.inputs)
    ]
    layer = case.make()
    call = case.call or (lambda layer, *x: layer(*x))
    run_as = tf.function(jit_compile=True) if case.compiled else lambda function: function
    y = run_as(lambda: call(layer, *inputs))()  # creates the weights
    dy = _uniform(f"{case.name}/dy", y.shape)
    weights = layer.trainable_variables
    for weight in weights:
        weight.assign(_uniform(f"{case.name}/{_path(weight)}", weight.shape))
    for weight in layer.non_trainable_variables:
        if weight.dtype.startswith("float"):
            weight.assign(_uniform(f"{case.name}/{_path(weight)}", weight.shape))
    floating = [i for i, x in enumerate(inputs) if x.dtype.is_floating]

    def differentiate():
        with tf.GradientTape() as tape:
            tape.watch([inputs[i] for i in floating])
            y = call(layer, *inputs)
            loss = tf.reduce_sum(y * dy)
        sources = [inputs[i] for i in floating] + [w.value for w in weights]
        return y, [tf.convert_to_tensor(d) for d in tape.gradient(loss, sources)]

    y, gradients = run_as(differentiate)()
    names = [f"dx{i}" for i in floating] + [f"d:{_path(w)}" for w in weights]
    arrays = dict(zip(["y"] + names, [y] + gradients, strict=True))
    return {f"{case.name}/{name}": np.float32(value.numpy()) for name, value in arrays.items()}


def main():
    """Writes the families that the command line names, by default all."""
    keras.config.set_floatx("float64")
    for family in sys.argv[1:] or _FAMILIES:
        cases = importlib.import_module(f"layers.{family}").CASES
        arrays = {}
        for case in cases:
            arrays.update(_run(case))
        path = _FOLDER / f"{family}.npz"
        np.savez_compressed(path, **arrays)
        print(f"{path.name}: {len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
