# SPDX-License-Identifier: Apache-2.0
"""half and bfloat16, for ops of every family."""

import numpy as np

from case import Variable, case
from literals import NUMPY_TYPES
from tensors import ALL, REDUCED, nonzero, sample, tensor

_INF = float("inf")
_NAN = float("nan")

# Zeros, ties, the largest half and numbers beyond it, the smallest normal and denormal halves.
_SPECIAL = [-_INF, -70000, -65504, -2.5, -1, -0.0, 0, 6e-8, 1e-7, 6.1e-5, 0.1, 0.25, 1.5, 3, 300, _INF, _NAN]

_UNARY = (
    "Abs", "Cos", "Exp", "Floor", "Identity", "IsFinite", "Neg", "OnesLike", "Reciprocal", "Relu",
    "Sigmoid", "Sign", "Sin", "Square", "StopGradient", "Tanh", "ZerosLike",
)
_OF_POSITIVE = ("Log", "Log1p", "Rsqrt", "Sqrt")
_BINARY = (
    "Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum", "Less", "LessEqual", "Greater",
    "GreaterEqual", "Equal", "NotEqual",
)
_UNARY_GRADIENTS = ("ReluGrad", "SigmoidGrad", "TanhGrad", "RsqrtGrad", "SqrtGrad", "ReciprocalGrad")


def _conversions(dtype):
    """Yields casts to and from every type, and halfway cases from double and int64."""
    for other in (*ALL, *REDUCED):
        target = NUMPY_TYPES[other]
        if other == "uint8":
            values = [0, 0.5, 1, 100.25, 250]
        elif other in ("int32", "int64"):
            values = [-300, -7.5, -0.5, 0, 0.1, 3.75, 2000]
        else:
            values = _SPECIAL
        with np.errstate(over="ignore"):
            yield case("Cast", tensor(dtype, values), DstT=target)
        low = 0 if other == "uint8" else None  # out-of-range conversions are undefined
        yield case("Cast", sample(dtype, [17], low=low), DstT=target)
    source = NUMPY_TYPES[dtype]
    ties = [1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 2.0**-25, 3 * 2.0**-25]
    for other in ("float", "double"):
        yield case("Cast", tensor(other, [*_SPECIAL, *ties, 65519, 65520, 1e30]), DstT=source)
    yield case("Cast", tensor("int32", [-70000, -2049, -257, 0, 1, 255, 257, 2051]), DstT=source)
    yield case("Cast", tensor("int64", [-70000, -2049, -257, 0, 1, 255, 257, 2051]), DstT=source)
    yield case("Cast", tensor("uint8", [0, 1, 255]), DstT=source)
    yield case("Cast", tensor("bool", [True, False]), DstT=source)


def _elementwise(dtype):
    for op in _UNARY:
        yield case(op, sample(dtype, [17]))
        yield case(op, sample(dtype, []))
        yield case(op, tensor(dtype, [[], []]))
    for op in ("Abs", "Neg", "Relu", "IsFinite", "Sign", "Square"):
        with np.errstate(over="ignore"):
            yield case(op, tensor(dtype, _SPECIAL))
    for op in _OF_POSITIVE:
        yield case(op, sample(dtype, [17], low=0.1, high=20))
    for op in _BINARY:
        yield case(op, sample(dtype, [2, 9]), nonzero(dtype, [9], seed=1))
        yield case(op, sample(dtype, [3, 1]), nonzero(dtype, [], seed=1))
    for op in _UNARY_GRADIENTS:
        yield case(op, sample(dtype, [17], low=0.2, high=0.9), sample(dtype, [17], seed=1))
    # TensorFlow rounds each step of these ops, so the operands are chosen to need no rounding.
    few, fewer = sample("int32", [2, 9]), sample("int32", [9], seed=1)
    yield case("SquaredDifference", tensor(dtype, few / 4), tensor(dtype, fewer / 2))
    yield case("AddN", [tensor(dtype, few / 4), tensor(dtype, few / 8), tensor(dtype, few)])
    pieces = [tensor(dtype, few / 4), tensor(dtype, few / 8), tensor(dtype, few)]
    yield case("AccumulateNV2", pieces, shape=[2, 9])
    yield case("Softplus", tensor(dtype, [-_INF, 0, 30, 70, _INF]))
    yield case("SoftsignGrad", sample(dtype, [5]), tensor(dtype, [-3, -1, 0, 1, 3]))
    condition = sample("bool", [2, 3])
    yield case("SelectV2", condition, sample(dtype, [2, 3]), sample(dtype, [3], seed=1))


def _reductions(dtype):
    for op in ("Sum", "Mean", "Max", "Min"):
        for axes in ([1], [0, 1], [0], []):
            yield case(op, sample(dtype, [3, 17]), tensor("int32", axes), keep_dims=axes == [0])
        yield case(op, sample(dtype, [9]), tensor("int32", 0))
    yield case("Prod", sample(dtype, [2, 5], low=0.5, high=1.5), tensor("int32", [1]))
    yield case("ArgMax", sample(dtype, [3, 5]), tensor("int32", 1))
    ids = tensor("int32", [0, 2, 0, -1])
    yield case("UnsortedSegmentSum", sample(dtype, [4, 3]), ids, tensor("int32", 3))


def _networks(dtype):
    yield case("MatMul", sample(dtype, [3, 5]), sample(dtype, [5, 4], seed=1))
    yield case("MatMul", sample(dtype, [5, 3]), sample(dtype, [5, 4], seed=1), transpose_a=True)
    yield case("BiasAdd", sample(dtype, [2, 5]), sample(dtype, [5], seed=1))
    yield case("BiasAddGrad", sample(dtype, [4, 5]))
    yield case("Softmax", sample(dtype, [3, 7]))
    images, window = sample(dtype, [2, 5, 5, 3]), [1, 2, 2, 1]
    kernel = sample(dtype, [3, 3, 3, 2], seed=1)
    yield case("Conv2D", images, kernel, strides=window, padding="SAME")
    yield case("MaxPool", images, ksize=window, strides=window, padding="VALID")
    labels = tensor("int32", [1, 0, 6])
    yield case("SparseSoftmaxCrossEntropyWithLogits", sample(dtype, [3, 7]), labels)


def _moves(dtype):
    matrix = sample(dtype, [2, 3])
    index = lambda *values: tensor("int32", values)
    yield case("ConcatV2", [matrix, sample(dtype, [1, 3])], tensor("int32", 0))
    yield case("Pack", [matrix, sample(dtype, [2, 3], seed=1)], axis=1)
    yield case("Unpack", matrix, num=3, axis=1)
    yield case("Split", tensor("int32", 1), sample(dtype, [2, 6]), num_split=3)
    yield case("Slice", sample(dtype, [4, 5]), index(1, 2), index(2, -1))
    yield case("StridedSlice", sample(dtype, [7]), index(6), index(0), index(-2))
    yield case("Pad", matrix, tensor("int32", [[1, 0], [0, 2]]))
    yield case("PadV2", matrix, tensor("int32", [[1, 0], [0, 2]]), tensor(dtype, 0.5))
    mirror = tensor("int32", [[1, 1], [0, 2]])
    yield case("MirrorPad", matrix, mirror, mode="REFLECT")
    yield case("ReverseV2", matrix, index(1))
    yield case("Transpose", sample(dtype, [2, 3, 4]), index(2, 0, 1))
    yield case("Tile", matrix, index(2, 1))
    yield case("BroadcastTo", sample(dtype, [3]), index(2, 3))
    yield case("Reshape", matrix, index(3, -1))
    yield case("ExpandDims", matrix, tensor("int32", 1))
    yield case("Squeeze", sample(dtype, [2, 1, 3]))
    yield case("GatherV2", sample(dtype, [4, 3]), index(2, 0, 3), tensor("int32", 0))
    yield case("Fill", index(2, 3), tensor(dtype, 0.1))
    yield case("OneHot", index(1, 0), tensor("int32", 3), tensor(dtype, 1), tensor(dtype, -1))
    yield case("IdentityN", [matrix, sample("float", [2])])
    yield case("CheckNumerics", matrix, message="of the test")
    yield case("CheckNumerics", tensor(dtype, [1, _INF]), message="of the test", fails=True)
    yield case("Bitcast", matrix, type=np.uint8)


def _variables(dtype):
    value, gradient = sample(dtype, [17]), sample(dtype, [17], seed=1)
    yield case("ReadVariableOp", Variable(value), dtype=NUMPY_TYPES[dtype])
    yield case("AssignVariableOp", Variable(value), gradient)
    yield case("AssignAddVariableOp", Variable(value), gradient)
    yield case("AssignSubVariableOp", Variable(value), gradient)
    rate = tensor(dtype, 0.25)
    yield case("ResourceApplyGradientDescent", Variable(value), rate, gradient)
    slot = Variable(sample(dtype, [17], seed=2))
    momentum = tensor(dtype, 0.5)
    yield case("ResourceApplyMomentum", Variable(value), slot, rate, gradient, momentum)


def cases():
    """Yields the cases of every family in both types."""
    for dtype in REDUCED:
        for family in (_conversions, _elementwise, _reductions, _networks, _moves, _variables):
            yield from family(dtype)
