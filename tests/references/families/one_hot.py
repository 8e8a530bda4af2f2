# SPDX-License-Identifier: Apache-2.0
"""OneHot."""

from case import case
from tensors import ALL, sample, tensor

# Shape of the indices, depth, axis.
_ROWS = (
    ([4], 3, -1),
    ([2, 3], 4, 1),
    ([2, 3], 2, 0),
    ([2, 3], 2, 2),
    ([], 5, -1),
    ([], 2, 0),
    ([3], 0, -1),
    ([0, 2], 3, -1),
    ([0], 3, 0),
    ([5], 1, 0),
)


def cases():
    """Yields all rows for float, two rows for the other types, and indices out of range."""
    for dtype in ALL:
        for index, (shape, depth, axis) in enumerate(_ROWS if dtype == "float" else _ROWS[:2]):
            index_type = ("int64", "int32", "uint8")[index % 3]
            low = 0 if index_type == "uint8" else -1
            yield case(
                "OneHot",
                sample(index_type, shape, low=low, high=depth + 1),
                tensor("int32", depth),
                sample(dtype, [], seed=3),
                sample(dtype, [], seed=4),
                axis=axis,
            )
    one, zero = tensor("float", 1), tensor("float", 0)
    indices = tensor("int32", [1, 0])
    yield case("OneHot", indices, tensor("int32", -1), one, zero, fails=True)
    yield case("OneHot", indices, tensor("int32", 2), one, zero, axis=3, fails=True)
