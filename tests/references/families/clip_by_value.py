# SPDX-License-Identifier: Apache-2.0
"""ClipByValue with bounds that are scalars, tensors, reversed, or NaN."""

from case import case
from tensors import NUMERIC, REDUCED, sample, tensor

_INF = float("inf")
_NAN = float("nan")

# Shapes of the values and of both bounds.
_SHAPES = (
    ([2, 3], [], []),
    ([2, 3], [2, 3], [2, 3]),
    ([2, 3], [], [2, 3]),
    ([2, 3], [2, 3], []),
    ([17], [], []),
    ([], [], []),
    ([0, 3], [], []),
    ([0, 3], [0, 3], [0, 3]),
)
_SPECIAL = [-_INF, -5, -1, -0.0, 0, 1, 3, _INF, _NAN]


def cases():
    """Yields all shapes of bounds for float, two for the other types, and special values."""
    for dtype in NUMERIC:
        for shape, low, high in _SHAPES if dtype == "float" else _SHAPES[:2]:
            bounds = sample(dtype, low, 1, 0, 1), sample(dtype, high, 2, 2, 3)
            yield case("ClipByValue", sample(dtype, shape), *bounds)
    for low, high in ((-1, 2), (5, 3), (_NAN, 2), (-1, _NAN), (-_INF, _INF), (_INF, -_INF)):
        values, bounds = tensor("float", _SPECIAL), (tensor("float", low), tensor("float", high))
        yield case("ClipByValue", values, *bounds)
    values = tensor("float", [1, 2])
    yield case("ClipByValue", values, tensor("float", [0]), tensor("float", 1), fails=True)
    yield case("ClipByValue", tensor("float", 1), values, tensor("float", 1), fails=True)
    for dtype in REDUCED:
        yield case("ClipByValue", sample(dtype, [17]), tensor(dtype, -0.5), tensor(dtype, 1.5))
