# SPDX-License-Identifier: Apache-2.0
"""GatherNd, ScatterNd, TensorScatterUpdate, ResourceGather; ListDiff and BroadcastArgs."""

import numpy as np

from case import Variable, case
from literals import NUMPY_TYPES
from tensors import ALL, INDEX, NUMERIC, sample, tensor

# Shape of the whole, shape of the indices.
_PLACES = (
    ([4, 3], [2, 1]),
    ([4, 3], [3, 2]),
    ([5], [2, 2, 1]),
    ([2, 3, 4], [3, 2]),
    ([2, 3], [2]),
    ([2, 3, 2], [2, 2, 3]),
    ([2, 3], [2, 0]),
    ([3, 2], [0, 1]),
)

# Shape of the whole; distinct indices.
_UPDATED = (
    ([4, 3], [[2], [0]]),
    ([4, 3], [[0, 2], [3, 1], [3, 0]]),
    ([2, 3, 4], [[[1, 2]], [[0, 0]]]),
    ([3, 2], np.zeros([0, 1])),
    ([1, 3], [[0]]),
    ([4, 1], [[2], [0]]),
    ([2, 3, 4], [[[1, 2]], [[0, 0]]]),
    ([2, 3, 1], [[0, 1]]),
    ([2, 1, 4], [[0]]),
)

# Shape of the variable, shape of the indices.
_ROWS = (([4, 3], [2]), ([5], [2, 3]), ([4, 2, 2], []), ([3, 2], [0]), ([2, 0], [3]))

# Shape of the variable, indices, dimensions of the batch.
_BATCHED_ROWS = (
    ([2, 3, 2], [[0, 2], [1, 1]], 1),
    ([2, 3], [[2], [0]], 1),
    ([2, 3], [1, 2], 1),
    ([2, 2, 3, 1], [[[0, 2], [1, 1]], [[2, 2], [0, 1]]], 2),
    ([1, 2, 3, 2], [[2, 0]], 2),
    ([2, 3, 2], [[], []], 1),
)

# Elements of x, and of y.
_LISTS = (
    ([1, 2, 3, 4, 5], [2, 4]),
    ([3, 3, 1, 3, 0], [1]),
    ([], [1]),
    ([7, 8], []),
    ([1, 1], [1]),
)

_SHAPES = (([2, 3], [3]), ([2, 1, 3], [4, 1]), ([], [5]), ([1], [0]), ([2, 3], [2, 3]), ([], []))


def _indices(dtype, shape, whole):
    """Returns indices, each within its dimension."""
    depth = shape[-1]
    columns = [sample(dtype, shape[:-1], seed=k, low=0, high=whole[k] - 1) for k in range(depth)]
    return np.stack(columns, -1) if depth else sample(dtype, shape)


def _nested(dtype, rows):
    for index, (whole, shape) in enumerate(rows):
        index_type = INDEX[index % 2]
        indices = _indices(index_type, shape, whole)
        yield case("GatherNd", sample(dtype, whole), indices)
        # TensorFlow rejects some empty operands.
        if dtype in NUMERIC and len(shape) > 1 and all((*whole, *shape)):
            updates = sample(dtype, [*shape[:-1], *whole[shape[-1]:]], seed=7)
            yield case("ScatterNd", indices, updates, tensor(index_type, whole))


def _updates(dtype, places):
    for index, (whole, indices) in enumerate(places):
        indices = tensor(INDEX[index % 2], indices)
        updates = sample(dtype, [*indices.shape[:-1], *whole[indices.shape[-1]:]], seed=7)
        yield case("TensorScatterUpdate", sample(dtype, whole), indices, updates)


def _rows(dtype, rows):
    for index, (whole, shape) in enumerate(rows):
        indices = sample(INDEX[index % 2], shape, low=0, high=whole[0] - 1)
        variable = Variable(sample(dtype, whole))
        yield case("ResourceGather", variable, indices, dtype=NUMPY_TYPES[dtype])


def _batched_rows(dtype, rows):
    for index, (whole, indices, batch_dims) in enumerate(rows):
        yield case("ResourceGather", Variable(sample(dtype, whole)),
                   tensor(INDEX[index % 2], indices), dtype=NUMPY_TYPES[dtype],
                   batch_dims=batch_dims)


def _lists(dtype):
    for index, (x, y) in enumerate(_LISTS):
        out_idx = NUMPY_TYPES[INDEX[index % 2]]
        yield case("ListDiff", tensor(dtype, x), tensor(dtype, y), out_idx=out_idx)


def cases():
    """Yields all rows for float, the first two rows for other types, and cases that must fail."""
    for dtype in ALL:
        rows = slice(None) if dtype == "float" else slice(2)
        yield from _nested(dtype, _PLACES[rows])
        yield from _rows(dtype, _ROWS[rows])
        yield from _batched_rows(dtype, _BATCHED_ROWS[rows])
        yield from _updates(dtype, _UPDATED[rows])
    for dtype in NUMERIC:
        yield from _lists(dtype)
    for dtype in INDEX:
        for s0, s1 in _SHAPES:
            yield case("BroadcastArgs", tensor(dtype, s0), tensor(dtype, s1))
    matrix, beyond = sample("float", [2, 3]), tensor("int32", [[0, 0], [1, 3]])
    yield case("GatherNd", matrix, beyond, fails=True)
    yield case("GatherNd", matrix, tensor("int64", [[-1]]), fails=True)
    yield case("ScatterNd", beyond, sample("float", [2]), tensor("int32", [2, 3]), fails=True)
    yield case("TensorScatterUpdate", matrix, beyond, sample("float", [2]), fails=True)
    yield case("ResourceGather", Variable(matrix), tensor("int32", [2]), dtype=np.float32, fails=True)
    yield case("BroadcastArgs", tensor("int32", [2]), tensor("int32", [3]), fails=True)
