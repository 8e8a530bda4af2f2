# SPDX-License-Identifier: Apache-2.0
"""TopKV2, with equal elements but without NaN, which TensorFlow does not order."""

from case import case
from literals import NUMPY_TYPES
from tensors import FLOATING, INDEX, NUMERIC, REDUCED, sample, tensor

# Shape of the input, k.
_ROWS = (
    ([2, 5], 2),
    ([7], 7),
    ([1, 4], 1),
    ([3, 1], 1),
    ([2, 3, 17], 5),
    ([40], 3),
    ([2, 3], 0),
    ([0, 3], 2),
    ([2, 0], 0),
)
_INF = float("inf")


def cases():
    """Yields all rows for float and int32, some for the other types, ties, and infinite values."""
    for dtype in (*NUMERIC, *REDUCED):
        for index, (shape, k) in enumerate(_ROWS if dtype in ("float", "int32") else _ROWS[:3]):
            yield case("TopKV2", sample(dtype, shape), tensor(INDEX[index % 2], k),
                       index_type=NUMPY_TYPES[INDEX[index // 2 % 2]])
        ties = tensor(dtype, [[2, 5, 5, 1, 5], [3, 3, 3, 3, 3]])
        for k in (1, 2, 4, 5):
            yield case("TopKV2", ties, tensor("int32", k))
        yield case("TopKV2", ties, tensor("int32", 1), sorted=False)
        yield case("TopKV2", ties, tensor("int32", 5), sorted=False)
    for dtype in FLOATING:
        yield case("TopKV2", tensor(dtype, [1, -_INF, _INF, -0.0, 0]), tensor("int32", 4))
    yield case("TopKV2", sample("float", [2, 3]), tensor("int32", 4), fails=True)
