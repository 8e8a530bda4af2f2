# SPDX-License-Identifier: Apache-2.0
"""BiasAdd and BiasAddGrad along the last dimension, and along dimension 1."""

from case import case
from tensors import NUMERIC, sample, tensor

_SHAPES = ([2, 3], [2, 2, 2, 3], [4, 2, 5], [5, 1], [1, 17], [0, 3], [2, 0, 2, 3], [2, 2, 1, 2, 3])

_NCHW = ([2, 3, 2, 2], [2, 3, 5], [1, 2, 1, 2, 3], [2, 17, 1, 1], [0, 3, 2, 2], [2, 3, 0, 2])


def cases():
    """Yields all shapes for float, and the first two for the other types."""
    for dtype in NUMERIC:
        for shape in _SHAPES if dtype == "float" else _SHAPES[:2]:
            yield case("BiasAdd", sample(dtype, shape), sample(dtype, shape[-1:], seed=1))
            yield case("BiasAddGrad", sample(dtype, shape))
        for shape in _NCHW if dtype == "float" else _NCHW[:1]:
            bias = sample(dtype, shape[1:2], seed=1)
            yield case("BiasAdd", sample(dtype, shape), bias, data_format="NCHW")
            yield case("BiasAddGrad", sample(dtype, shape), data_format="NCHW")
    special = tensor("float", [[float("nan"), 1, float("inf")], [2, 3, -float("inf")]])
    yield case("BiasAdd", special, tensor("float", [1, float("nan"), 2]))
    yield case("BiasAddGrad", special)
    most = tensor("int32", [[2147483647, -2147483648]])
    yield case("BiasAdd", most, tensor("int32", [1, -1]))
