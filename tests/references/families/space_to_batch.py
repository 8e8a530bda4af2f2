# SPDX-License-Identifier: Apache-2.0
"""SpaceToBatchND and BatchToSpaceND."""

from case import case
from tensors import INDEX, NUMERIC, sample, tensor

# Space, block, paddings.
_SPACES = (
    ([1, 4, 4, 1], [2, 2], [[0, 0], [0, 0]]),
    ([2, 3, 5, 2], [2, 3], [[1, 0], [0, 1]]),
    ([2, 6], [3], [[0, 0]]),
    ([1, 3, 2], [2], [[2, 1]]),
    ([1, 2, 2, 3], [1, 1], [[0, 0], [1, 2]]),
    ([2, 2, 3, 2], [2, 1, 2], [[0, 2], [0, 0], [1, 1]]),
    ([0, 4, 2], [2], [[0, 0]]),
    ([2, 4, 0], [2], [[0, 0]]),
    ([1, 1, 1, 1], [4, 4], [[2, 1], [3, 0]]),
)

# Batch, block, crops.
_BATCHES = (
    ([4, 2, 2, 1], [2, 2], [[0, 0], [0, 0]]),
    ([6, 2, 2, 2], [2, 3], [[1, 0], [0, 2]]),
    ([6, 2], [3], [[0, 0]]),
    ([2, 3, 2], [2], [[2, 1]]),
    ([2, 2, 3], [1], [[0, 1]]),
    ([4, 2, 2], [2], [[2, 2]]),
    ([0, 4, 2], [2], [[0, 0]]),
)


def cases():
    """Yields all rows for float, the first two rows for other types, and cases that must fail."""
    for dtype in NUMERIC:
        rows = slice(None) if dtype == "float" else slice(2)
        for op, table in (("SpaceToBatchND", _SPACES[rows]), ("BatchToSpaceND", _BATCHES[rows])):
            for index, (shape, block, margins) in enumerate(table):
                block = tensor(INDEX[index % 2], block)
                margins = tensor(INDEX[index // 2 % 2], margins)
                yield case(op, sample(dtype, shape), block, margins)
    images = sample("float", [3, 3, 2])
    two, none = tensor("int32", [2]), tensor("int32", [[0, 0]])
    yield case("SpaceToBatchND", images, two, none, fails=True)
    yield case("BatchToSpaceND", images, two, none, fails=True)
    yield case("SpaceToBatchND", images, tensor("int32", [0]), none, fails=True)
    yield case("BatchToSpaceND", images, tensor("int32", [1]), tensor("int32", [[2, 2]]), fails=True)
