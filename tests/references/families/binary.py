# SPDX-License-Identifier: Apache-2.0
"""Element-wise ops of two operands: arithmetic, comparison, logic; with broadcasting."""

import numpy as np

from case import case
from tensors import ALL, FLOATING, INTEGER, NUMERIC, SIGNED, nonzero, sample, tensor

_INF = float("inf")
_NAN = float("nan")

# The types of each op.
_OPS = {
    "Add": NUMERIC,
    "AddV2": NUMERIC,
    "Div": NUMERIC,
    "DivNoNan": FLOATING,
    "Equal": ALL,
    "FloorDiv": NUMERIC,
    "FloorMod": NUMERIC,
    "Greater": NUMERIC,
    "GreaterEqual": NUMERIC,
    "Less": NUMERIC,
    "LessEqual": NUMERIC,
    "LogicalAnd": ("bool",),
    "LogicalOr": ("bool",),
    "Maximum": NUMERIC,
    "Minimum": NUMERIC,
    "Mod": (*FLOATING, *SIGNED),
    "Mul": NUMERIC,
    "NotEqual": ALL,
    "Pow": (*FLOATING, *SIGNED),
    "RealDiv": FLOATING,
    "SquaredDifference": (*FLOATING, *SIGNED),
    "Sub": NUMERIC,
    "TruncateDiv": NUMERIC,
    "TruncateMod": (*FLOATING, *SIGNED),
}
_INTEGER_DIVISIONS = ("Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod")

# All ways to broadcast. They are used for an op's first element type; other types use only some.
_SHAPES = (
    ([2, 3], [2, 3]),
    ([2, 1], [1, 3]),
    ([3], [2, 3]),
    ([2, 3], [3]),
    ([2, 3], []),
    ([], [2, 3]),
    ([], []),
    ([2, 3, 4], [3, 1]),
    ([2, 1, 4], [3, 1]),
    ([4, 1, 1], [2, 3]),
    ([17], [17]),
    ([0, 3], [3]),
    ([1], [0]),
    ([0, 1], [1, 3]),
    ([2, 1], [0]),
)
_FEW_SHAPES = _SHAPES[:3]

# Each element of the first list is paired with each element of the second.
_FLOAT_SPECIAL = [-_INF, -2.5, -1, -0.0, 0, 1, 3, _INF, _NAN]
_SIGNED_SPECIAL = ([-7, -6, -1, 0, 1, 6, 7], [-7, -3, -2, -1, 1, 2, 3, 7])
_SPECIAL = {
    "float": (_FLOAT_SPECIAL, _FLOAT_SPECIAL),
    "double": (_FLOAT_SPECIAL, _FLOAT_SPECIAL),
    "int32": _SIGNED_SPECIAL,
    "int64": _SIGNED_SPECIAL,
    "bool": ([True, False], [True, False]),
    "uint8": ([0, 1, 7, 100, 200, 255], [1, 2, 7, 200, 255]),
}
_INTEGER_POWERS = ([-7, -2, -1, 0, 1, 2, 7], [0, 1, 2, 3, 8])


def _operands(op, dtype, left, right):
    """Returns random operands that the op is well defined for."""
    if op == "Pow" and dtype in FLOATING:
        return sample(dtype, left, low=0.1, high=3), sample(dtype, right, seed=1)
    if op == "Pow":
        return sample(dtype, left), sample(dtype, right, seed=1, low=0, high=4)
    if op in _INTEGER_DIVISIONS:
        return sample(dtype, left), nonzero(dtype, right, seed=1)
    return sample(dtype, left), sample(dtype, right, seed=1)


def _all_pairs(op, dtype):
    left, right = _SPECIAL[dtype]
    if op == "Pow" and dtype in SIGNED:
        left, right = _INTEGER_POWERS
    return case(op, tensor(dtype, left)[:, np.newaxis], tensor(dtype, right))


def _refused():
    """Yields integer operands without a result: the kernel must fail without ending the process."""
    for dtype in INTEGER:
        for op in _INTEGER_DIVISIONS:
            if dtype not in _OPS[op]:
                continue
            yield case(op, tensor(dtype, [7, 8]), tensor(dtype, [2, 0]), fails=True)
    for dtype in SIGNED:
        yield case("Pow", tensor(dtype, [2, 3]), tensor(dtype, [2, -1]), fails=True)


def cases():
    """Yields every kind of broadcasting, then all pairs of special values."""
    for op, dtypes in _OPS.items():
        for dtype in dtypes:
            for left, right in _SHAPES if dtype == dtypes[0] else _FEW_SHAPES:
                yield case(op, *_operands(op, dtype, left, right))
            yield _all_pairs(op, dtype)
    yield from _refused()
    for op in ("Equal", "NotEqual"):
        operands = sample("float", [2, 3]), sample("float", [3])
        yield case(op, *operands, incompatible_shape_error=False)
