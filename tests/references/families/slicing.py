# SPDX-License-Identifier: Apache-2.0
"""Slice, Pad, StridedSlice and StridedSliceGrad."""

import numpy as np

from case import case, compute
from tensors import ALL, INDEX, sample, tensor

# Operand shape, begin, size.
_SLICES = (
    ([3, 4], [1, 0], [2, 3]),
    ([3, 4], [0, 1], [-1, 2]),
    ([3, 4], [1, 2], [-1, -1]),
    ([7], [3], [4]),
    ([7], [7], [-1]),
    ([3, 4], [1, 1], [0, 2]),
    ([2, 3, 4], [1, 0, 2], [1, 3, 2]),
    ([2, 2, 2, 3], [0, 1, 0, 1], [2, 1, -1, 1]),
    ([0, 3], [0, 1], [0, 2]),
    ([], [], []),
)

# Operand shape, paddings.
_PADDINGS = (
    ([2, 3], [[1, 0], [0, 2]]),
    ([3], [[1, 2]]),
    ([2, 3], [[0, 0], [0, 0]]),
    ([1, 2, 2], [[0, 1], [1, 1], [2, 0]]),
    ([0, 2], [[1, 1], [0, 1]]),
    ([], np.zeros([0, 2])),
)

# Operand shape, begin, end, strides, masks (bit i applies to entry i).
_STRIDED = (
    ([3, 4], [0, 1], [2, 3], [1, 1], {}),
    ([7], [6], [0], [-2], {}),
    ([7], [1], [7], [3], {}),
    ([7], [-3], [-1], [1], {}),
    ([7], [-100], [100], [1], {}),
    ([7], [100], [-100], [-1], {}),
    ([7], [5], [2], [1], {}),
    ([7], [0], [3], [1], {"begin_mask": 1}),
    ([7], [3], [0], [2], {"end_mask": 1}),
    ([7], [3], [3], [-1], {"begin_mask": 1, "end_mask": 1}),
    ([3, 4], [9, 1], [9, 3], [1, 1], {"begin_mask": 1, "end_mask": 1}),
    ([3, 4], [1], [2], [1], {}),
    ([3, 4], [1], [2], [1], {"shrink_axis_mask": 1}),
    ([3, 4], [-1], [0], [1], {"shrink_axis_mask": 1}),
    ([3, 4], [0, -2], [0, -1], [1, 1], {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}),
    ([3, 4], [1, 2], [2, 3], [1, 1], {"shrink_axis_mask": 3}),
    ([3, 4], [0, 1], [0, 2], [1, 1], {"new_axis_mask": 1}),
    ([3, 4], [0, 0, 0], [0, 0, 0], [1, 1, 1],
     {"begin_mask": 5, "end_mask": 5, "new_axis_mask": 2}),
    ([2, 3, 4], [0, 1], [0, 3], [1, 1], {"ellipsis_mask": 1}),
    ([2, 3, 4], [1, 0], [2, 0], [1, 1], {"ellipsis_mask": 2, "shrink_axis_mask": 1}),
    ([2, 3, 4], [0, 0, 3], [2, 0, 0], [1, 1, -2], {"ellipsis_mask": 2}),
    ([2, 3, 4], [0, 0, 1], [0, 0, 2], [1, 1, 1],
     {"ellipsis_mask": 1, "new_axis_mask": 2, "shrink_axis_mask": 4}),
    ([2, 3, 4], [1, 2, 3], [0, 0, 0], [-1, -2, -3], {}),
    ([2, 3, 4], [1, 2, 3], [0, 0, 0], [-1, -1, -1], {"begin_mask": 7, "end_mask": 7}),
    ([2, 3], [0, 0], [2, 3], [1, 1], {"ellipsis_mask": 2, "new_axis_mask": 2}),
    ([2, 3], [0, 1], [2, 1], [1, 1], {}),
    ([0, 3], [0, 1], [0, 3], [1, 1], {}),
)


def _strided(dtype, index_type, shape, begin, end, strides, masks):
    """Yields the slice, and the gradient that puts the slice's result back."""
    bounds = [tensor(index_type, values) for values in (begin, end, strides)]
    yield case("StridedSlice", sample(dtype, shape), *bounds, **masks)
    (result,) = compute("StridedSlice", sample(dtype, shape), *bounds, **masks)
    gradient = sample(dtype, result.shape, seed=1)
    yield case("StridedSliceGrad", tensor(index_type, shape), *bounds, gradient, **masks)


def cases():
    """Yields all rows of each table for float, and the first two rows for the other types."""
    for dtype in ALL:
        rows = slice(None) if dtype == "float" else slice(2)
        for index, (shape, begin, size) in enumerate(_SLICES[rows]):
            index_type = INDEX[index % 2]
            bounds = tensor(index_type, begin), tensor(index_type, size)
            yield case("Slice", sample(dtype, shape), *bounds)
        for index, (shape, paddings) in enumerate(_PADDINGS[rows]):
            yield case("Pad", sample(dtype, shape), tensor(INDEX[index % 2], paddings))
        for index, strided in enumerate(_STRIDED[rows]):
            yield from _strided(dtype, INDEX[index % 2], *strided)
