# SPDX-License-Identifier: Apache-2.0
"""Bitwise ops on integers: and, or, xor, invert and shifts, also out of range."""

import numpy as np

from case import case
from tensors import INTEGER, sample, tensor

_OPS = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
_SHIFTS = ("LeftShift", "RightShift")
_SHAPES = (([2, 3], [2, 3]), ([2, 1], [1, 3]), ([2, 3], []), ([17], [17]), ([0, 3], [3]))

_SPECIAL = {
    "int32": [-(2**31), -7, -1, 0, 1, 100, 2**31 - 1],
    "int64": [-(2**63), -7, -1, 0, 1, 2**40, 2**63 - 1],
    "uint8": [0, 1, 7, 100, 128, 255],
}
_BITS = {
    "int32": [-(2**31), -1, 0, 1, 7, 31, 32, 2**31 - 1],
    "int64": [-(2**63), -1, 0, 1, 7, 63, 64, 2**63 - 1],
    "uint8": [0, 1, 7, 8, 255],
}


def cases():
    """Yields cases that broadcast, then all pairs of special values."""
    for dtype in INTEGER:
        special = tensor(dtype, _SPECIAL[dtype])
        for op in (*_OPS, *_SHIFTS):
            for left, right in _SHAPES:
                yield case(op, sample(dtype, left), sample(dtype, right, seed=1))
            other = tensor(dtype, _BITS[dtype]) if op in _SHIFTS else special
            yield case(op, special[:, np.newaxis], other)
        yield case("Invert", special)
        yield case("Invert", sample(dtype, [2, 1, 3]))
        yield case("Invert", tensor(dtype, [[], []]))
