# SPDX-License-Identifier: Apache-2.0
"""Sum, Mean, Max, Min, Prod, norms, All, Any, ArgMax and ArgMin along all kinds of axes."""

from case import case
from literals import NUMPY_TYPES
from tensors import ALL, FLOATING, INDEX, NUMERIC, nonzero, sample, tensor

_INF = float("inf")
_NAN = float("nan")

_OPS = ("EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum")

# Operand shape, axes (a number is a scalar operand), keep_dims.
_AXES = (
    ([2, 3, 4], [1], False),
    ([2, 3, 4], [0, 2], False),
    ([2, 3, 4], [-1], True),
    ([2, 3, 4], [0], False),
    ([2, 3, 4], [1, 2], False),
    ([2, 3, 4], [0, 1, 2], False),
    ([2, 3, 4], [0, 1, 2], True),
    ([2, 3, 4], [-3, 1], True),
    ([2, 3, 4], [], False),
    ([2, 3, 4], 2, False),
    ([2, 3, 4], -2, True),
    ([5, 7], [0], False),
    ([37], [0], False),
    ([2, 1, 3, 1, 2], [0, 2, 4], False),
    ([2, 1, 3, 1, 2], [1, 3], False),
    ([], [], False),
    ([0, 3], [1], False),
    ([0, 3], [1], True),
)
_FEW_AXES = _AXES[:3]
_EMPTY = (([0, 3], [0], False), ([2, 0], [1], True), ([0], [0], False))

_ARG_MAX = (([2, 3, 4], 0), ([2, 3, 4], 1), ([2, 3, 4], -1), ([7], 0), ([0, 3], 1), ([1, 1], -2))


def _operand(op, dtype, shape):
    if op == "Prod" and dtype not in FLOATING:  # a product that does not overflow
        values = sample(dtype, shape, low=0 if dtype == "uint8" else -2, high=2)
        values[values == 0] = 1
        return values
    return nonzero(dtype, shape)


def _reductions(op, dtype):
    for index, (shape, axes, keep_dims) in enumerate(_AXES if dtype == "float" else _FEW_AXES):
        axes_type = INDEX[index % 2]
        operand = _operand(op, dtype, shape)
        yield case(op, operand, tensor(axes_type, axes), keep_dims=keep_dims)
    if op == "Mean" and dtype not in FLOATING:
        return  # the mean of no integers is undefined
    for shape, axes, keep_dims in _EMPTY:
        yield case(op, _operand(op, dtype, shape), tensor("int32", axes), keep_dims=keep_dims)


def _logical(op):
    for index, (shape, axes, keep_dims) in enumerate((*_AXES, *_EMPTY)):
        yield case(
            op, sample("bool", shape), tensor(INDEX[index % 2], axes), keep_dims=keep_dims
        )
    rows = [[True, True, True], [True, False, True], [False, False, False]]
    for axis in (0, 1):
        yield case(op, tensor("bool", rows), tensor("int32", [axis]))


def _special_values(op):
    rows = [[1, _NAN, 3], [1, _INF, 3], [1, -_INF, 3], [_INF, -_INF, 0], [-_INF, -_INF, -_INF]]
    for dtype in FLOATING:
        yield case(op, tensor(dtype, rows), tensor("int32", [1]))


def _arg_max(op, dtype):
    for index, (shape, axis) in enumerate(_ARG_MAX):
        axis_type, output_type = INDEX[index % 2], INDEX[index // 2 % 2]
        yield case(
            op,
            sample(dtype, shape),
            tensor(axis_type, axis),
            output_type=NUMPY_TYPES[output_type],
        )
    ties = tensor(dtype, [[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 1, 1]])
    yield case(op, ties, tensor("int32", 1), output_type=NUMPY_TYPES["int32"])


def _arg_special(op):
    rows = [[_NAN, 1, 3], [1, _NAN, -3], [_NAN] * 3, [_INF, -_INF, 0], [-_INF] * 3, [_INF] * 3]
    for dtype in FLOATING:
        for axis in (0, 1):
            yield case(op, tensor(dtype, rows), tensor("int32", axis))


def _l2_loss(dtype):
    for shape in ([17], [2, 3], [2, 1, 3], [], [0, 3]):
        yield case("L2Loss", sample(dtype, shape))
    yield case("L2Loss", tensor(dtype, [1, _INF]))
    yield case("L2Loss", tensor(dtype, [1, _NAN]))


def cases():
    """Yields all kinds of axes for float, a few for other types, and empty operands for all."""
    for op in _OPS:
        for dtype in NUMERIC:
            yield from _reductions(op, dtype)
        yield from _special_values(op)
    for op in ("All", "Any"):
        yield from _logical(op)
    for op in ("ArgMax", "ArgMin"):
        for dtype in ALL:
            yield from _arg_max(op, dtype)
        yield from _arg_special(op)
        yield case(op, tensor("float", [[], []]), tensor("int32", 1), fails=True)
    for dtype in FLOATING:
        yield from _l2_loss(dtype)
