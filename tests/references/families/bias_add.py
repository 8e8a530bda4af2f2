# SPDX-License-Identifier: Apache-2.0
"""BiasAdd and BiasAddGrad along the last dimension."""

from case import case
from tensors import NUMERIC, sample

_SHAPES = ([2, 3], [2, 2, 2, 3], [4, 2, 5], [5, 1], [1, 17], [0, 3], [2, 0, 2, 3], [2, 2, 1, 2, 3])


def cases():
    """All shapes for float, the first two for the other types."""
    for dtype in NUMERIC:
        for shape in _SHAPES if dtype == "float" else _SHAPES[:2]:
            yield case("BiasAdd", sample(dtype, shape), sample(dtype, shape[-1:], seed=1))
            yield case("BiasAddGrad", sample(dtype, shape))
