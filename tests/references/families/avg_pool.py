# SPDX-License-Identifier: Apache-2.0
"""AvgPool and AvgPoolGrad."""

import numpy as np

from case import case, compute, in_nchw
from tensors import FLOATING, sample, tensor

# Images [batch, height, width, channels], window, strides, padding.
_POOLINGS = (
    ([1, 4, 4, 2], (2, 2), (2, 2), "VALID"),
    ([1, 5, 5, 2], (3, 3), (2, 2), "SAME"),
    ([2, 5, 4, 1], (2, 2), (2, 2), "SAME"),
    ([1, 5, 5, 1], (2, 2), (1, 1), "VALID"),
    ([1, 5, 6, 11], (3, 2), (2, 1), "SAME"),
    ([1, 5, 6, 1], (2, 3), (1, 2), "VALID"),
    ([1, 7, 7, 1], (2, 2), (3, 3), "VALID"),
    ([2, 3, 3, 2], (3, 3), (3, 3), "VALID"),
    ([1, 1, 1, 3], (1, 1), (1, 1), "SAME"),
    ([0, 4, 4, 2], (2, 2), (2, 2), "VALID"),
)


def _pooling(images, window, strides, padding):
    """Yields the pooling and its gradient, each with its image operands."""
    attributes = {"ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding}
    yield case("AvgPool", images, **attributes), {}
    (result,) = compute("AvgPool", images, **attributes)
    gradient = sample("double", result.shape, seed=1).astype(images.dtype)
    shape = tensor("int32", images.shape)
    yield case("AvgPoolGrad", shape, gradient, **attributes), {"images": (1,), "sizes": (0,)}


def cases():
    """Yields all poolings in both layouts, and special values."""
    for dtype in FLOATING:
        for shape, *pooling in _POOLINGS:
            for one_case, images in _pooling(sample(dtype, shape), *pooling):
                yield one_case
                yield in_nchw(one_case, **images)
        special = np.zeros([1, 3, 3, 1])
        special[0, 0, 0, 0], special[0, 2, 2, 0] = float("nan"), float("inf")
        for one_case, _ in _pooling(tensor(dtype, special), (2, 2), (1, 1), "SAME"):
            yield one_case
