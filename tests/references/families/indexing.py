# SPDX-License-Identifier: Apache-2.0
"""Ops whose indices are data: GatherV2, UnsortedSegmentSum, InvertPermutation."""

from case import case
from tensors import ALL, INDEX, NUMERIC, sample, tensor

# Shape of the parameters, indices, axis.
_GATHERS = (
    ([4, 3], [2, 0, 2], 0),
    ([2, 4], [3, 3, 0], 1),
    ([2, 3, 4], [[1, 0], [2, 2]], 1),
    ([2, 3, 4], [3, 1], -1),
    ([2, 3], [[1], [0]], -2),
    ([5], [4, 1], 0),
    ([5], 3, 0),
    ([4, 3], 1, 0),
    ([2, 4], 2, 1),
    ([4, 3], [], 0),
    ([2, 0], [1, 1], 0),
    ([0, 3], [], 0),
)

# Shape of the parameters, indices, axis, batch dimensions.
_BATCHED = (
    ([2, 4], [[3, 0], [1, 1]], 1, 1),
    ([2, 3, 2], [2, 0], 1, 1),
    ([2, 3, 2], [[[0, 2]], [[1, 1]]], -2, 1),
    ([2, 2, 3], [[1], [0]], 2, 1),
    ([2, 2, 3, 2], [[0, 1], [2, 1]], 2, -1),
    ([2, 2, 3], [[0, 1], [2, 1]], 2, 2),
    ([2, 1, 2, 3], [[[1, 0]], [[0, 0]]], 3, 2),
    ([0, 3], [], 1, 1),
)

# Shape of the data, segment ids, number of segments. Negative ids are dropped.
_SEGMENTS = (
    ([4, 2], [1, 0, 1, 2], 3),
    ([5], [2, 2, -1, 0, 4], 6),
    ([2, 3], [[0, 1, 0], [2, 1, 0]], 3),
    ([2, 2, 3], [[1, 0], [0, 1]], 2),
    ([3, 2], [0, 0, 0], 1),
    ([0, 2], [], 3),
    ([2, 2], [-1, -1], 0),
    ([], 1, 2),
)


def _gathers(dtype, rows):
    for index, (shape, indices, axis) in enumerate(_GATHERS[rows]):
        index_type, axis_type = INDEX[index % 2], INDEX[index // 2 % 2]
        yield case(
            "GatherV2", sample(dtype, shape), tensor(index_type, indices), tensor(axis_type, axis)
        )


def _batched_gathers(dtype, rows):
    for index, (shape, indices, axis, batch_dims) in enumerate(rows):
        index_type = INDEX[index % 2]
        yield case("GatherV2", sample(dtype, shape), tensor(index_type, indices),
                   tensor("int32", axis), batch_dims=batch_dims)


def _segment_sums(dtype, rows):
    for index, (shape, ids, count) in enumerate(_SEGMENTS[rows]):
        id_type, count_type = INDEX[index % 2], INDEX[index // 2 % 2]
        yield case(
            "UnsortedSegmentSum",
            sample(dtype, shape),
            tensor(id_type, ids),
            tensor(count_type, count),
        )


def _out_of_range(index_type):
    parameters, axis = sample("float", [2, 3]), tensor("int32", 1)
    for index in (3, -1):
        yield case("GatherV2", parameters, tensor(index_type, [0, index]), axis, fails=True)
    ids, count = tensor(index_type, [0, 2]), tensor("int32", 2)
    yield case("UnsortedSegmentSum", parameters, ids, count, fails=True)
    for permutation in ([0, 2], [1, 1], [-1, 0]):
        yield case("InvertPermutation", tensor(index_type, permutation), fails=True)


def cases():
    """Yields all rows for float, some rows for the other types, and indices out of range."""
    for dtype in ALL:
        rows = slice(None) if dtype == "float" else slice(2)
        yield from _gathers(dtype, rows)
        yield from _batched_gathers(dtype, _BATCHED[rows])
        if dtype in NUMERIC:
            yield from _segment_sums(dtype, rows)
    for index_type in INDEX:
        for permutation in ([3, 0, 2, 1], [0], []):
            yield case("InvertPermutation", tensor(index_type, permutation))
        yield from _out_of_range(index_type)
