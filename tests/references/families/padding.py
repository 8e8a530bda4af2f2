# SPDX-License-Identifier: Apache-2.0
"""PadV2, MirrorPad and MirrorPadGrad."""

import numpy as np

from case import case
from tensors import ALL, INDEX, NUMERIC, sample, tensor

# Operand shape, paddings.
_PADDINGS = (
    ([2, 3], [[1, 0], [0, 2]]),
    ([3], [[1, 2]]),
    ([2, 3], [[0, 0], [0, 0]]),
    ([1, 2, 2], [[0, 1], [1, 1], [2, 0]]),
    ([0, 2], [[1, 1], [0, 1]]),
    ([], np.zeros([0, 2])),
)

# Operand shape, paddings that both modes allow.
_MIRRORED = (
    ([3, 4], [[1, 2], [3, 0]]),
    ([4], [[2, 3]]),
    ([2, 3], [[0, 0], [0, 0]]),
    ([1, 3, 2], [[0, 0], [2, 1], [1, 1]]),
    ([2, 2, 2, 3], [[1, 1], [0, 1], [0, 0], [2, 2]]),
    ([2, 2, 2, 2, 2], [[1, 0], [0, 1], [0, 0], [1, 1], [0, 1]]),
    ([], np.zeros([0, 2])),
)


def _mirrored(dtype, index_type, shape, paddings, mode):
    paddings = tensor(index_type, paddings)
    yield case("MirrorPad", sample(dtype, shape), paddings, mode=mode)
    if dtype in NUMERIC and dtype != "uint8":
        padded = [size + sum(padding) for size, padding in zip(shape, paddings)]
        yield case("MirrorPadGrad", sample(dtype, padded, seed=1), paddings, mode=mode)


def cases():
    """Yields all rows for float, the first two rows for other types, and cases that must fail."""
    for dtype in ALL:
        rows = slice(None) if dtype == "float" else slice(2)
        for index, (shape, paddings) in enumerate(_PADDINGS[rows]):
            yield case(
                "PadV2",
                sample(dtype, shape),
                tensor(INDEX[index % 2], paddings),
                sample(dtype, [], seed=5),
            )
        for index, (shape, paddings) in enumerate(_MIRRORED[rows]):
            for mode in ("REFLECT", "SYMMETRIC"):
                yield from _mirrored(dtype, INDEX[index % 2], shape, paddings, mode)
    # Padding as long as the dimension is possible only if the outermost element is repeated.
    whole = tensor("int32", [[3, 3]])
    yield case("MirrorPad", sample("float", [3]), whole, mode="SYMMETRIC")
    yield case("MirrorPadGrad", sample("float", [9]), whole, mode="SYMMETRIC")
    yield case("MirrorPad", sample("float", [3]), whole, mode="REFLECT", fails=True)
    beyond = tensor("int32", [[4, 0]])
    yield case("MirrorPad", sample("float", [3]), beyond, mode="SYMMETRIC", fails=True)
    negative = tensor("int32", [[-1, 0]])
    yield case("MirrorPad", sample("float", [3]), negative, mode="SYMMETRIC", fails=True)
    yield case("PadV2", sample("float", [3]), negative, tensor("float", 1), fails=True)
