# SPDX-License-Identifier: Apache-2.0
"""Trigonometric, hyperbolic, error and gamma functions, at ordinary and at special values."""

from case import case
from tensors import FLOATING, REDUCED, sample, tensor

_INF = float("inf")
_NAN = float("nan")

# The range of the random values of each op.
_RANGES = {
    "Acos": (-0.95, 0.95),
    "Acosh": (1.1, 20),
    "Asin": (-0.95, 0.95),
    "Asinh": (-20, 20),
    "Atan": (-5, 5),
    "Atanh": (-0.95, 0.95),
    "Cosh": (-5, 5),
    "Digamma": (2, 20),
    "Erf": (-3, 3),
    "Erfc": (-3, 3),
    "Lgamma": (3, 20),
    "Sinh": (-5, 5),
    "Tan": (-1.4, 1.4),
}

_SPECIAL = [-_INF, -20, -2.5, -1, -0.5, -0.0, 0, 1e-6, 0.25, 1, 1.5, 2.5, 20, 88, _INF, _NAN]


def _special(op, dtype):
    if op == "Erf" and dtype == "double":  # TensorFlow gives NaN for infinities
        return tensor(dtype, _SPECIAL[1:-2])
    return tensor(dtype, _SPECIAL)


def cases():
    """Yields special values, a vector with a tail, a scalar and an empty matrix for each op."""
    for op, (low, high) in _RANGES.items():
        for dtype in FLOATING:
            yield case(op, _special(op, dtype))
            yield case(op, tensor(dtype, [[], []]))
            yield case(op, sample(dtype, [17], low=low, high=high))
            yield case(op, sample(dtype, [2, 3], low=low, high=high))
            yield case(op, sample(dtype, [], low=low, high=high))
    for op in ("Acos", "Atan", "Cosh", "Tan"):
        for dtype in REDUCED:
            low, high = _RANGES[op]
            yield case(op, sample(dtype, [17], low=low, high=high))
