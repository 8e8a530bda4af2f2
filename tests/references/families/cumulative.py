# SPDX-License-Identifier: Apache-2.0
"""Cumsum and Cumprod: each axis, forward and reverse, inclusive and exclusive."""

import itertools

from case import case
from tensors import INDEX, NUMERIC, nonzero, sample, tensor

_INF = float("inf")
_NAN = float("nan")

_AXES = (([2, 3, 4], 1), ([2, 3, 4], -1), ([2, 3, 4], 0), ([7], 0), ([1, 5], -2), ([5, 1], 0))
_EMPTY = (([0, 3], 0), ([0, 3], 1))


def _operand(op, dtype, shape):
    if op == "Cumsum":
        return sample(dtype, shape)
    return nonzero(dtype, shape)  # TensorFlow's gradient of Cumprod does not handle zeros


def _ways():
    return [
        {"exclusive": exclusive, "reverse": reverse}
        for exclusive, reverse in itertools.product((False, True), repeat=2)
    ]


def cases():
    """Yields each variant along every axis for float, and along the first axis for other types."""
    for op in ("Cumsum", "Cumprod"):
        for dtype in NUMERIC:
            for index, (shape, axis) in enumerate(_AXES if dtype == "float" else _AXES[:1]):
                for way in _ways():
                    yield case(op, _operand(op, dtype, shape), tensor(INDEX[index % 2], axis), **way)
            for shape, axis in _EMPTY:
                yield case(op, _operand(op, dtype, shape), tensor("int32", axis))
        for way in _ways():
            rows = tensor("float", [[1, _NAN, 3], [2, _INF, 0.5]])
            yield case(op, rows, tensor("int32", 1), **way)
        yield case(op, tensor("int32", [2, 0, 3]), tensor("int32", 0))
        yield case(op, tensor("float", [1]), tensor("int32", 1), fails=True)
        yield case(op, tensor("float", 1), tensor("int32", 0), fails=True)
