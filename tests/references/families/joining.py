# SPDX-License-Identifier: Apache-2.0
"""Ops of several tensors: ConcatV2, ConcatOffset, Pack, Unpack, AddN, DynamicStitch."""

from case import case
from tensors import ALL, INDEX, NUMERIC, sample, tensor

# Shapes of the pieces, axis.
_CONCATS = (
    ([[2, 3], [1, 3]], 0),
    ([[2, 3], [2, 1], [2, 2]], -1),
    ([[2, 1, 3], [2, 2, 3]], 1),
    ([[2, 3], [1, 3]], -2),
    ([[4], [0], [1]], 0),
    ([[0, 3], [2, 3]], 0),
    ([[0, 3], [0, 2]], 1),
    ([[2, 1, 1, 2], [2, 1, 3, 2], [2, 1, 2, 2]], 2),
)

# Shape of a piece, number of pieces, axis.
_PACKS = (
    ([2, 3], 2, 0),
    ([2, 3], 3, -1),
    ([2, 3], 2, 1),
    ([2, 3], 2, -3),
    ([], 4, 0),
    ([2], 1, 0),
    ([0, 3], 2, 1),
)

# Indices; the data have the same leading dimensions, then these dimensions.
_STITCHES = (
    ([[0, 2], [1]], []),
    ([[3, 1, 0], [2]], [2]),
    ([2, [0, 1]], [3]),
    ([[[0, 3], [1, 2]], [4]], [2]),
    ([[0, 1], [1, 0]], [2]),  # the last duplicate wins
    ([[1, 0, 1]], []),
    ([[], [0]], [2]),
)


def _pieces(dtype, shapes):
    return [sample(dtype, shape, seed) for seed, shape in enumerate(shapes)]


def _stitch(dtype, indices, dims):
    indices = [tensor("int32", values) for values in indices]
    return case("DynamicStitch", indices, _pieces(dtype, [[*i.shape, *dims] for i in indices]))


def cases():
    """Yields all rows of each table for float, and the first two rows for the other types."""
    for dtype in ALL:
        rows = slice(None) if dtype == "float" else slice(2)
        for index, (shapes, axis) in enumerate(_CONCATS[rows]):
            yield case("ConcatV2", _pieces(dtype, shapes), tensor(INDEX[index % 2], axis))
        for shape, count, axis in _PACKS[rows]:
            pieces = _pieces(dtype, [shape] * count)
            yield case("Pack", pieces, axis=axis)
            packed = list(shape)
            packed.insert(axis % (len(shape) + 1), count)
            yield case("Unpack", sample(dtype, packed), num=count, axis=axis)
        for stitch in _STITCHES[rows]:
            yield _stitch(dtype, *stitch)
    for dtype in NUMERIC:
        for shape, count in (([2, 3], 3), ([], 2), ([5], 1), ([0, 3], 2), ([2, 2], 9)):
            yield case("AddN", _pieces(dtype, [shape] * count))
    special = [tensor("float", [float("nan"), 1, float("inf")]), tensor("float", [1, 2, -3])]
    yield case("AddN", special)
    for shapes, axis in _CONCATS:
        yield case("ConcatOffset", tensor("int32", axis), [tensor("int32", s) for s in shapes])
    yield case("ConcatOffset", tensor("int32", 1), [tensor("int64", [2, n]) for n in (3, 1, 2)])
