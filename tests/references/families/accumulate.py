# SPDX-License-Identifier: Apache-2.0
"""AccumulateNV2: the sum of tensors of one shape, which is an attribute."""

from case import case
from tensors import NUMERIC, sample, tensor


def cases():
    """Yields cases with one to nine operands."""
    for dtype in NUMERIC:
        for shape, count in (([2, 3], 3), ([], 2), ([5], 1), ([0, 3], 2), ([2, 2], 9)):
            pieces = [sample(dtype, shape, seed=seed) for seed in range(count)]
            yield case("AccumulateNV2", pieces, shape=shape)
    special = [tensor("float", [float("nan"), 1, float("inf")]), tensor("float", [1, 2, -3])]
    yield case("AccumulateNV2", special, shape=[3])
