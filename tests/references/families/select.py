# SPDX-License-Identifier: Apache-2.0
"""SelectV2, whose three operands broadcast, and Select, whose condition may select rows."""

import math

import numpy as np

from case import case
from tensors import ALL, REDUCED, sample, tensor

# Shapes of the condition, and of the values where it is true and where it is false.
_SHAPES = (
    ([2, 3], [2, 3], [2, 3]),
    ([2, 1], [3], [2, 3]),
    ([], [2, 3], [2, 3]),
    ([2, 3], [], []),
    ([3], [2, 1], [1, 3]),
    ([2, 1, 1], [3, 1], [4]),
    ([], [], []),
    ([2, 3], [], [3]),
    ([0, 3], [3], []),
    ([1], [0], [1]),
)

# Shapes of Select's condition and of its values.
_V1_SHAPES = (
    ([2, 3], [2, 3]),
    ([2], [2, 3]),
    ([], [2, 3]),
    ([2], [2, 2, 2]),
    ([], []),
    ([5], [5]),
    ([2, 0], [2, 0]),
    ([0], [0, 3]),
    ([2], [2, 0]),
)


def _condition(shape):
    """Returns alternating true and false."""
    return (np.arange(math.prod(shape)) % 2 == 0).reshape(shape)


def cases():
    """Yields all ways to broadcast for float, and two for the other types."""
    for dtype in ALL:
        for condition, then, otherwise in _SHAPES if dtype == "float" else _SHAPES[:2]:
            operands = sample(dtype, then), sample(dtype, otherwise, seed=1)
            yield case("SelectV2", _condition(condition), *operands)
    operands = sample("float", [2, 3]), sample("float", [3], seed=1)
    yield case("SelectV2", tensor("bool", False), *operands)
    operands = tensor("float", [1, 2]), tensor("float", [float("nan")] * 2)
    yield case("SelectV2", tensor("bool", [True, False]), *operands)
    for dtype in ALL:
        for condition, values in _V1_SHAPES if dtype == "float" else _V1_SHAPES[:2]:
            operands = sample(dtype, values), sample(dtype, values, seed=1)
            yield case("Select", _condition(condition), *operands)
    yield case("Select", tensor("bool", False), *operands)
    for dtype in REDUCED:
        operands = sample(dtype, [2, 3]), sample(dtype, [2, 3], seed=1)
        yield case("Select", _condition([2]), *operands)
