# SPDX-License-Identifier: Apache-2.0
"""half and bfloat16, for ops without a case in reduced_precision.txt: one float case per op."""

import dataclasses

import numpy as np

from case import Variable
from families import (
    activation,
    avg_pool,
    binary,
    binary_math,
    conv2d,
    cumulative,
    depthwise_conv2d,
    matmul,
    max_pool,
    passing,
    places,
    reduction,
    resource_scatter,
    shape,
    softmax,
    unary,
    unary_math,
    variable,
)
from tensors import REDUCED, tensor

# The ops, by the module that has their case.
_OPS = {
    activation: ("SoftplusGrad", "Softsign"),
    avg_pool: ("AvgPool", "AvgPoolGrad"),
    binary: ("Div", "DivNoNan", "FloorDiv", "FloorMod", "Pow", "TruncateDiv"),
    binary_math: ("Xlog1py",),
    conv2d: ("Conv2DBackpropFilter", "Conv2DBackpropInput"),
    cumulative: ("Cumprod", "Cumsum"),
    depthwise_conv2d: (
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropFilter",
        "DepthwiseConv2dNativeBackpropInput",
    ),
    matmul: ("BatchMatMulV2",),
    max_pool: ("MaxPoolGrad", "MaxPoolGradGrad"),
    passing: ("CheckNumericsV2",),
    places: ("ScatterNd", "TensorScatterUpdate"),
    reduction: ("ArgMin", "EuclideanNorm", "L2Loss"),
    resource_scatter: tuple(
        f"ResourceScatter{op}" for op in ("Add", "Div", "Max", "Min", "Mul", "Sub")
    ),
    shape: ("Range",),
    softmax: ("LogSoftmax", "SoftmaxCrossEntropyWithLogits"),
    unary: ("Ceil", "Expm1", "Inv", "IsInf", "IsNan", "Round"),
    unary_math: (
        "Acosh", "Asin", "Asinh", "Atanh", "Digamma", "Erf", "Erfc", "Lgamma", "Sinh",
    ),
    variable: (
        "ResourceApplyAdagrad",
        "ResourceApplyAdagradV2",
        "ResourceApplyAdam",
        "ResourceApplyKerasMomentum",
        "ResourceApplyRMSProp",
    ),
}


# TensorFlow has no kernels for these.
_WITHOUT = {("Digamma", "bfloat16"), ("Lgamma", "bfloat16")}


def _reduced(one_case, dtype):
    def convert(value):
        if isinstance(value, list):
            return [convert(item) for item in value]
        if isinstance(value, Variable):
            return Variable(convert(value.value))
        return tensor(dtype, value) if value.dtype == "float32" else value

    return dataclasses.replace(
        one_case, operands=tuple(convert(operand) for operand in one_case.operands)
    )


def _arrays(one_case):
    for operand in one_case.operands:
        for value in operand if isinstance(operand, list) else [operand]:
            yield value.value if isinstance(value, Variable) else value


def _fits(one_case):
    arrays = list(_arrays(one_case))
    floats = [array for array in arrays if array.dtype == "float32"]
    return (
        bool(floats)
        and not one_case.fails
        and not one_case.channels_first
        and all(array.size and np.isfinite(array).all() for array in floats)
    )


def cases():
    """Yields the first case of each op whose operands are numbers."""
    for module, ops in _OPS.items():
        left = set(ops)
        for one_case in filter(_fits, module.cases()):
            if one_case.op in left:
                left.remove(one_case.op)
                for dtype in REDUCED:
                    if (one_case.op, dtype) not in _WITHOUT:
                        yield _reduced(one_case, dtype)
        if left:
            raise AssertionError(f"{module.__name__} has no case of {sorted(left)}")
