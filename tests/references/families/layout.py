# SPDX-License-Identifier: Apache-2.0
"""Ops that keep the elements and change the shape: Reshape, Transpose, ExpandDims, Squeeze."""

from case import case
from tensors import ALL, INDEX, sample, tensor

_RESHAPES = (
    ([2, 3, 4], [6, 4]),
    ([2, 3, 4], [-1, 3]),
    ([2, 3, 4], [-1]),
    ([2, 3], [3, -1, 1]),
    ([1], []),
    ([], [1, 1]),
    ([0, 3], [-1, 3]),
    ([0, 3], [3, 0, 5]),
)
_TRANSPOSES = (
    ([2, 3], [1, 0]),
    ([2, 3, 4], [2, 0, 1]),
    ([2, 3, 4], [0, 2, 1]),
    ([2, 3, 4], [0, 1, 2]),
    ([2, 3, 1, 2], [0, 3, 1, 2]),
    ([2, 2, 3, 2], [3, 1, 0, 2]),
    ([1, 3, 1], [2, 1, 0]),
    ([4], [0]),
    ([], []),
    ([0, 3], [1, 0]),
)
_EXPANSIONS = (
    ([2, 3], 0),
    ([2, 3], 1),
    ([2, 3], 2),
    ([2, 3], -1),
    ([2, 3], -3),
    ([], 0),
    ([0], -1),
)
_SQUEEZES = (
    ([1, 2, 1, 3, 1], []),
    ([1, 2, 1, 3, 1], [0]),
    ([1, 2, 1, 3, 1], [-1]),
    ([1, 2, 1, 3, 1], [0, 2]),
    ([1, 2, 1, 3, 1], [-1, -5]),
    ([1], []),
    ([2, 3], []),
    ([1, 0], [0]),
)


def _with_static_operand(op, dtype, table):
    for index, (shape, static) in enumerate(table):
        yield case(op, sample(dtype, shape), tensor(INDEX[index % 2], static))


def cases():
    """Yields all rows of each table for float, and the first two rows for the other types."""
    for dtype in ALL:
        rows = slice(None) if dtype == "float" else slice(2)
        yield from _with_static_operand("Reshape", dtype, _RESHAPES[rows])
        yield from _with_static_operand("Transpose", dtype, _TRANSPOSES[rows])
        yield from _with_static_operand("ExpandDims", dtype, _EXPANSIONS[rows])
        for shape, dims in _SQUEEZES[rows]:
            yield case("Squeeze", sample(dtype, shape), axis=dims)
