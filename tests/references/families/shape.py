# SPDX-License-Identifier: Apache-2.0
"""Ops that read shapes, and ops that make a tensor of a given shape."""

from case import case
from literals import NUMPY_TYPES
from tensors import ALL, FLOATING, INDEX, SIGNED, sample, tensor

_TILES = (
    ([2, 3], [2, 1]),
    ([2, 3], [1, 3]),
    ([2, 3], [2, 2]),
    ([2, 3], [1, 1]),
    ([2, 3], [0, 2]),
    ([1, 2, 1], [3, 1, 2]),
    ([0, 2], [2, 2]),
    ([], []),
    ([1, 2, 1, 2, 2, 1], [2, 2, 2, 1, 2, 3]),
    ([2, 1, 2, 1, 1, 2, 1, 1], [2, 1, 2, 2, 1, 1, 1, 2]),
)
_BROADCASTS = (
    ([3], [2, 3]),
    ([2, 1], [2, 3]),
    ([], [2, 2]),
    ([2, 3], [2, 3]),
    ([1, 2, 1], [3, 2, 4]),
    ([2, 1], [3, 2, 2]),
    ([1, 3], [0, 3]),
    ([], []),
)
_RANGES = ((0, 5, 1), (3, 18, 4), (5, 0, -2), (0, 0, 1), (-3, 3, 2), (4, 1, -1), (2, 3, 10))
_FLOAT_RANGES = ((0, 1, 0.25), (1, -1, -0.75), (0.5, 0.5, 1), (0, 2.1, 0.5))

# First number, last number, how many.
_LINES = (
    (0, 1, 5),
    (1, -2, 4),
    (-0.3, 7.7, 10),
    (3, 9, 1),
    (2, 2, 3),
    (float("inf"), 1, 3),
    (0, float("nan"), 3),
)

# Two shapes that broadcast.
_SHAPE_PAIRS = (
    ([2, 3], [2, 3]),
    ([2, 3], [3]),
    ([3], [2, 3]),
    ([2, 1], [1, 3]),
    ([], [2, 3]),
    ([], []),
    ([4, 1, 3], [2, 1]),
    ([1], [1]),
    ([1, 1], [1]),
    ([0, 3], [1]),
    ([5, 1, 0], [1, 0]),
)


def _of_shapes(dtype):
    for out_type in INDEX:
        for shape in ([2, 3], [], [0, 4], [5]):
            operand = sample(dtype, shape)
            yield case("Shape", operand, out_type=NUMPY_TYPES[out_type])
            yield case("Size", operand, out_type=NUMPY_TYPES[out_type])
        operands = [sample(dtype, shape) for shape in ([2, 3], [], [0])]
        yield case("ShapeN", operands, out_type=NUMPY_TYPES[out_type])
    for shape in ([2, 3], [], [0, 4, 1]):
        yield case("Rank", sample(dtype, shape))


def _to_shapes(dtype, rows):
    for index, (shape, multiples) in enumerate(_TILES[rows]):
        yield case("Tile", sample(dtype, shape), tensor(INDEX[index % 2], multiples))
    for index, (shape, target) in enumerate(_BROADCASTS[rows]):
        yield case("BroadcastTo", sample(dtype, shape), tensor(INDEX[index % 2], target))
    for index, dims in enumerate(([2, 3], [], [0, 2], [4])):
        yield case("Fill", tensor(INDEX[index % 2], dims), sample(dtype, [], seed=3))


def cases():
    """Yields all rows of each table for float, and some rows for the other types."""
    yield from _of_shapes("float")
    for dtype in ALL[1:]:
        yield case("Shape", sample(dtype, [2, 3]))
        yield case("Size", sample(dtype, [2, 3]))
        yield case("Rank", sample(dtype, [2, 3]))
    for dtype in ALL:
        yield from _to_shapes(dtype, slice(None) if dtype == "float" else slice(2))
    for dtype in (*FLOATING, *SIGNED):
        for bounds in _RANGES if dtype in SIGNED else (*_RANGES, *_FLOAT_RANGES):
            yield case("Range", *(tensor(dtype, bound) for bound in bounds))
    for dtype in FLOATING:
        for index, (start, stop, number) in enumerate(_LINES):
            ends = tensor(dtype, start), tensor(dtype, stop)
            yield case("LinSpace", *ends, tensor(INDEX[index % 2], number))
    for index_type in INDEX:
        for left, right in _SHAPE_PAIRS:
            yield case(
                "BroadcastGradientArgs", tensor(index_type, left), tensor(index_type, right)
            )
