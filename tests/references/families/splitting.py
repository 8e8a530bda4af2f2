# SPDX-License-Identifier: Apache-2.0
"""Split, SplitV and Concat."""

from case import case
from tensors import ALL, INDEX, sample, tensor

# Operand shape, dimension, number of pieces.
_SPLITS = (
    ([2, 6], 1, 3),
    ([4], -1, 2),
    ([3, 2], 0, 1),
    ([2, 4, 3], -2, 4),
    ([0, 4], 1, 2),
    ([0, 4], 0, 2),
    ([1, 2, 3], 0, 1),
)

# Operand shape, dimension, sizes.
_SIZES = (
    ([2, 6], 1, [1, 2, 3]),
    ([5], 0, [2, -1]),
    ([5], -1, [5, -1]),
    ([3, 4], 0, [3]),
    ([2, 3, 4], 2, [0, 4, 0]),
    ([2, 5, 2], -2, [-1, 1, 1]),
    ([0, 3], 1, [1, 2]),
    ([3, 0], 1, [0, -1]),
)

# Shapes, dimension.
_CONCATENATIONS = (
    ([[2, 3], [1, 3]], 0),
    ([[2, 3], [2, 1], [2, 2]], -1),
    ([[3], [0], [2]], 0),
    ([[2, 1, 2], [2, 3, 2]], 1),
    ([[0, 2], [0, 1]], 1),
)


def cases():
    """Yields all rows for float, the first two rows for other types, and cases that must fail."""
    for dtype in ALL:
        rows = slice(None) if dtype == "float" else slice(2)
        for shape, axis, number in _SPLITS[rows]:
            yield case("Split", tensor("int32", axis), sample(dtype, shape), num_split=number)
        for index, (shape, axis, sizes) in enumerate(_SIZES[rows]):
            yield case(
                "SplitV",
                sample(dtype, shape),
                tensor(INDEX[index % 2], sizes),
                tensor("int32", axis),
                num_split=len(sizes),
            )
        for shapes, axis in _CONCATENATIONS[rows]:
            values = [sample(dtype, shape, seed) for seed, shape in enumerate(shapes)]
            yield case("Concat", tensor("int32", axis), values)
    matrix = sample("float", [2, 5])
    yield case("Split", tensor("int32", 1), matrix, num_split=2, fails=True)
    yield case("Split", tensor("int32", 2), matrix, num_split=1, fails=True)
    for sizes in ([2, 2], [3, 3], [-1, -1], [6, -1], [-2, 7]):
        yield case(
            "SplitV",
            matrix,
            tensor("int64", sizes),
            tensor("int32", 1),
            num_split=len(sizes),
            fails=True,
        )
    yield case("Concat", tensor("int32", 0), [matrix, sample("float", [1, 4])], fails=True)
