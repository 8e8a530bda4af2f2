# SPDX-License-Identifier: Apache-2.0
"""Activations and the ops that are their gradients, at ordinary and at special values."""

from case import case
from tensors import FLOATING, INTEGER, NUMERIC, REDUCED, sample, tensor

_INF = float("inf")
_NAN = float("nan")

# The types of each op and of its gradient op.
_OPS = {
    "Elu": FLOATING,
    "LeakyRelu": FLOATING,
    "Relu6": NUMERIC,
    "Selu": FLOATING,
    "Softplus": FLOATING,
    "Softsign": FLOATING,
}
# The ops that TensorFlow rounds only once in half and bfloat16. It rounds each step of the others.
_ROUNDED_ONCE = ("Elu", "LeakyRelu", "Relu6", "Selu")
_ALPHAS = (0.0, 0.5, 1.5)

# No value is slightly below 0, where TensorFlow's Elu and Selu lose precision.
_SPECIAL = [-_INF, -100, -20, -1, -0.25, -0.0, 0, 1e-6, 1, 5.5, 6, 7, 20, 100, _INF, _NAN]
_INTEGERS = {"int32": [-7, 0, 1, 6, 7], "int64": [-7, 0, 1, 6, 7], "uint8": [0, 1, 5, 6, 255]}


def _activations(op, dtype):
    if dtype in INTEGER:
        yield case(op, tensor(dtype, _INTEGERS[dtype]))
        yield case(op, tensor(dtype, [[], []]))
        return
    for alpha in _ALPHAS if op == "LeakyRelu" else ():
        yield case(op, sample(dtype, [5]), alpha=alpha)
    yield case(op, tensor(dtype, _SPECIAL))
    for shape in ([17], [2, 3], [], [2, 0]):
        yield case(op, sample(dtype, shape, low=-8, high=8))


def _gradients(op, dtype):
    if dtype in INTEGER:
        value = tensor(dtype, _INTEGERS[dtype])
        yield case(op, tensor(dtype, [1, 2, 3, 4, 5]), value)
        yield case(op, tensor(dtype, []), tensor(dtype, []))
        return
    for alpha in _ALPHAS if op == "LeakyReluGrad" else ():
        yield case(op, sample(dtype, [5]), sample(dtype, [5], seed=1), alpha=alpha)
    yield case(op, tensor(dtype, [2] * len(_SPECIAL)), tensor(dtype, _SPECIAL))
    yield case(op, tensor(dtype, [_NAN, _INF, _NAN, _INF]), tensor(dtype, [-1, -1, 1, 7]))
    for shape in ([17], [2, 3], [], [2, 0]):
        yield case(op, sample(dtype, shape), sample(dtype, shape, seed=1, low=-8, high=8))


def cases():
    """Yields cases of each op and its gradient op."""
    for op, dtypes in _OPS.items():
        for dtype in dtypes:
            yield from _activations(op, dtype)
            yield from _gradients(f"{op}Grad", dtype)
        for dtype in REDUCED if op in _ROUNDED_ONCE else ():
            yield case(op, sample(dtype, [17], low=-8, high=8))
            gradients, values = sample(dtype, [17]), sample(dtype, [17], seed=1, low=-8, high=8)
            yield case(f"{op}Grad", gradients, values)
