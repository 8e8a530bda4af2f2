# SPDX-License-Identifier: Apache-2.0
"""Element-wise ops of one operand, at ordinary and at special values."""

from case import case
from tensors import ALL, FLOATING, NUMERIC, SIGNED, sample, tensor

_INF = float("inf")
_NAN = float("nan")

# The types of each op.
_OPS = {
    "Abs": (*FLOATING, *SIGNED),
    "Ceil": FLOATING,
    "Cos": FLOATING,
    "Exp": FLOATING,
    "Expm1": FLOATING,
    "Floor": FLOATING,
    "Identity": ALL,
    "Inv": FLOATING,
    "IsFinite": FLOATING,
    "IsInf": FLOATING,
    "IsNan": FLOATING,
    "Log": FLOATING,
    "Log1p": FLOATING,
    "LogicalNot": ("bool",),
    "Neg": (*FLOATING, *SIGNED),
    "OnesLike": ALL,
    "Reciprocal": FLOATING,
    "Relu": NUMERIC,
    "Rint": FLOATING,
    "Round": FLOATING,  # TensorFlow turns integers into zeros
    "Rsqrt": FLOATING,
    "Sigmoid": FLOATING,
    "Sign": (*FLOATING, *SIGNED),
    "Sin": FLOATING,
    "Sqrt": FLOATING,
    "Square": NUMERIC,
    "StopGradient": ALL,
    "Tanh": FLOATING,
    "ZerosLike": ALL,
}

# Ops that mostly give NaN for random values in [-3, 3], and the ranges that are used instead.
_RANGES = {"Log": (0.01, 20), "Log1p": (-0.9, 20), "Rsqrt": (0.01, 20), "Sqrt": (0, 20)}

_FLOATS = [-_INF, -20, -2.5, -1, -0.5, -0.0, 0, 0.25, 1, 1.5, 2.5, 20, _INF, _NAN]
_SPECIAL = {
    "float": _FLOATS,
    "double": _FLOATS,
    "int32": [-1000, -7, -1, 0, 1, 3, 1000],
    "int64": [-(2**31), -7, -1, 0, 1, 3, 2**31],
    "bool": [True, False],
    "uint8": [0, 1, 3, 12, 255],
}


def cases():
    """Yields special values, a vector with a tail, a scalar and an empty matrix for each op."""
    for op, dtypes in _OPS.items():
        low, high = _RANGES.get(op, (None, None))
        for dtype in dtypes:
            yield case(op, tensor(dtype, _SPECIAL[dtype]))
            yield case(op, tensor(dtype, [[], []]))
            if dtype in FLOATING:
                yield case(op, sample(dtype, [17], low=low, high=high))
                yield case(op, sample(dtype, [], low=low, high=high))
            else:
                yield case(op, sample(dtype, [2, 1, 3]))
