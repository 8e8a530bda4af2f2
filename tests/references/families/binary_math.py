# SPDX-License-Identifier: Apache-2.0
"""Functions of two operands: quotients and logarithms with a value at 0, angles, polygamma."""

import numpy as np

from case import case
from tensors import FLOATING, REDUCED, sample, tensor

_INF = float("inf")
_NAN = float("nan")

# The ranges of the random values of both operands.
_RANGES = {
    "Atan2": ((-3, 3), (-3, 3)),
    "MulNoNan": ((-3, 3), (-3, 3)),
    "NextAfter": ((-3, 3), (-3, 3)),
    "Xdivy": ((-3, 3), (0.5, 3)),
    "Xlog1py": ((-3, 3), (-0.9, 5)),
    "Xlogy": ((-3, 3), (0.1, 5)),
}

_SHAPES = (([2, 3], [2, 3]), ([2, 1], [1, 3]), ([3], [2, 3]), ([2, 3], []), ([17], [17]), ([], []),
           ([0, 3], [3]))
_SPECIAL = [-_INF, -2.5, -1, -0.0, 0, 1, 3, _INF, _NAN]


def _polygamma(dtype):
    order, x = [[0], [1], [2], [3]], sample(dtype, [5], low=0.5, high=10)
    yield case("Polygamma", tensor(dtype, order), x)
    yield case("Polygamma", tensor(dtype, 1), sample(dtype, [2, 3], low=0.5, high=10))
    yield case("Polygamma", tensor(dtype, [1, 2, -1, 0.5]), tensor(dtype, [0, -2, 1, 2]))
    yield case("Polygamma", tensor(dtype, []), tensor(dtype, []))
    yield case("Polygamma", tensor(dtype, [1, _NAN]), tensor(dtype, [_NAN, 1]))


def _approximate_equal(dtype):
    x = tensor(dtype, [1, 1, 1, -_INF, _INF, _NAN, 0])
    y = tensor(dtype, [1, 1.000005, 1.1, -_INF, -_INF, _NAN, -0.0])
    yield case("ApproximateEqual", x, y)
    yield case("ApproximateEqual", x, y, tolerance=0.5)
    yield case("ApproximateEqual", sample(dtype, [2, 3]), sample(dtype, [2, 3]))
    yield case("ApproximateEqual", sample(dtype, []), sample(dtype, [], seed=1), tolerance=10.0)
    yield case("ApproximateEqual", tensor(dtype, [[], []]), tensor(dtype, [[], []]))


def cases():
    """Yields cases that broadcast, then all pairs of special values."""
    for dtype in FLOATING:
        for op, ((low, high), (other_low, other_high)) in _RANGES.items():
            for left, right in _SHAPES:
                operand = sample(dtype, left, low=low, high=high)
                yield case(op, operand, sample(dtype, right, 1, other_low, other_high))
            yield case(op, tensor(dtype, _SPECIAL)[:, np.newaxis], tensor(dtype, _SPECIAL))
        yield from _polygamma(dtype)
        yield from _approximate_equal(dtype)
    for dtype in REDUCED:
        for op in ("Atan2", "MulNoNan", "Xdivy", "Xlogy"):
            low, high = _RANGES[op][1]
            yield case(op, sample(dtype, [2, 9]), sample(dtype, [9], 1, low, high))
