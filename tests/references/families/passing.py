# SPDX-License-Identifier: Apache-2.0
"""Ops that return their operand: IdentityN, Bitcast, CheckNumerics and the like; ReverseV2."""

from case import case
from literals import NUMPY_TYPES
from tensors import ALL, FLOATING, INDEX, sample, tensor

_INF = float("inf")
_NAN = float("nan")

# Operand shape, dimensions to reverse.
_REVERSALS = (
    ([2, 3], [1]),
    ([4], [0]),
    ([2, 3], []),
    ([2, 3, 2], [0, -1]),
    ([2, 3, 2], [1]),
    ([2, 3, 4, 2], [-3, 2]),
    ([1, 3], [0]),
    ([0, 3], [0, 1]),
)

# From, to, operand shape.
_BITCASTS = (
    ("float", "int32", [2, 3]),
    ("int32", "float", []),
    ("int64", "double", [3]),
    ("double", "int64", [0, 2]),
    ("float", "uint8", [2, 3]),
    ("int64", "int32", [2]),
    ("double", "float", []),
    ("int64", "uint8", [0, 2]),
    ("uint8", "int32", [2, 4]),
    ("int32", "int64", [3, 1, 2]),
    ("uint8", "int64", [8]),
    ("int32", "int64", [0, 2]),
)


def _identities(dtype):
    for shape in ([2, 3], [], [0, 2]):
        value = sample(dtype, shape)
        yield case("Snapshot", value)
        yield case("PreventGradient", value, message="for a reason")
        yield case("EnsureShape", value, shape=shape)
        yield case("EnsureShape", value, shape=[None] * len(shape))
        yield case("PlaceholderWithDefault", value, shape=shape)
        yield case("IdentityN", [value])
        yield case("IdentityN", [value, sample("int32", [2]), sample("float", [3, 1])])


def cases():
    """Yields cases of every type, and cases that must fail."""
    for dtype in ALL:
        yield from _identities(dtype)
        rows = slice(None) if dtype == "float" else slice(2)
        for index, (shape, axis) in enumerate(_REVERSALS[rows]):
            yield case("ReverseV2", sample(dtype, shape), tensor(INDEX[index % 2], axis))
    for source, target, shape in _BITCASTS:
        yield case("Bitcast", sample(source, shape, low=0, high=9), type=NUMPY_TYPES[target])
    for dtype in FLOATING:
        for op in ("CheckNumerics", "CheckNumericsV2"):
            for shape in ([17], [2, 3], [], [0, 2]):
                yield case(op, sample(dtype, shape), message="of the test")
            for wrong in (_INF, -_INF, _NAN):
                values = tensor(dtype, [1, 2, wrong, 3])
                yield case(op, values, message="of the test", fails=True)
    matrix = sample("float", [2, 3])
    yield case("ReverseV2", matrix, tensor("int32", [2]), fails=True)
    yield case("ReverseV2", matrix, tensor("int32", [1, -1]), fails=True)
