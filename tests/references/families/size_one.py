# SPDX-License-Identifier: Apache-2.0
"""Dimensions of size 1, for ops whose other cases lack them in some dimension."""

import dataclasses

import numpy as np

from case import Variable, case
from families import modules
from tensors import nonzero, sample, tensor

# Modules whose element-wise ops get cases.
_MODULES = modules(
    "accumulate",
    "activation",
    "bitwise",
    "cast",
    "clip_by_value",
    "passing",
    "select",
    "unary",
    "unary_grad",
    "unary_math",
    "variable",
)
_NOT_THESE = {"EnsureShape", "PlaceholderWithDefault", "ReverseV2"}  # these depend on the shape
_ROW, _COLUMN = [1, 3], [3, 1]


def _arrays(one_case):
    for operand in one_case.operands:
        for value in operand if isinstance(operand, list) else [operand]:
            yield value.value if isinstance(value, Variable) else value


def _has_equal_shapes(one_case):
    """Returns whether all operands but scalars have one shape and end in three finite elements."""
    arrays = [array for array in _arrays(one_case) if array.ndim]
    return (
        bool(arrays)
        and not one_case.fails
        and one_case.op not in _NOT_THESE
        and all(array.shape == arrays[0].shape and array.size >= 3 for array in arrays)
        and all(np.isfinite(array.flatten()[-3:].astype("float64")).all() for array in arrays)
    )


def _in_shape(one_case, shape):
    """Returns the case with the last three elements of each operand."""

    def convert(value):
        if isinstance(value, list):
            return [convert(item) for item in value]
        if isinstance(value, Variable):
            return Variable(convert(value.value))
        return value.flatten()[-3:].reshape(shape) if value.ndim else value

    attributes = dict(one_case.attributes)
    if "shape" in attributes:
        attributes["shape"] = shape
    operands = tuple(convert(operand) for operand in one_case.operands)
    return dataclasses.replace(one_case, operands=operands, attributes=attributes)


def _elementwise():
    """Yields the first case of each op."""
    seen = set()
    for module in _MODULES:
        for one_case in filter(_has_equal_shapes, module.cases()):
            if one_case.op in seen:
                continue
            seen.add(one_case.op)
            for shape in (_ROW, _COLUMN):
                yield _in_shape(one_case, shape)


def _broadcasts():
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift"):
        yield case(op, sample("int32", _ROW, low=0), sample("int32", [2, 1], seed=1, low=0, high=3))
    for op in ("Atan2", "MulNoNan", "NextAfter", "Xdivy", "Xlog1py", "Xlogy"):
        left, right = sample("float", _ROW), sample("float", [2, 1], seed=1, low=0.5)
        yield case(op, left, right)
    for left, right in ((_ROW, [2, 1]), ([2, 1], _ROW)):
        orders = sample("float", left, low=1, high=4).round()
        yield case("Polygamma", orders, sample("float", right, seed=1, low=0.5))
    for shape in (_ROW, _COLUMN):
        yield case("ApproximateEqual", sample("float", shape), sample("float", shape, seed=1),
                   tolerance=1.5)
        same = (sample("bool", shape), sample("float", shape, seed=1), sample("float", shape, seed=2))
        yield case("Select", *same)
        yield case("AddN", [sample("float", shape), sample("float", shape, seed=1)])
        bounds = sample("float", shape, seed=1, high=0), sample("float", shape, seed=2, low=0)
        yield case("ClipByValue", sample("float", shape), *bounds)
    values = sample("float", _ROW), sample("float", [2, 1], seed=1)
    yield case("SelectV2", sample("bool", [2, 3]), *values)


def _reductions():
    axes = [(_ROW, [0]), (_ROW, [1]), (_COLUMN, [1]), (_COLUMN, [0]), ([1, 1], [0, 1])]
    for shape, along in axes:
        for op in ("EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum"):
            yield case(op, nonzero("float", shape), tensor("int32", along), keep_dims=shape == _ROW)
        for op in ("All", "Any"):
            yield case(op, sample("bool", shape), tensor("int32", along), keep_dims=shape == _ROW)
        yield case("L2Loss", sample("float", shape))
    yield case("UnsortedSegmentSum", sample("float", [2, 1]), tensor("int32", [[1], [0]]),
               tensor("int32", 2))
    yield case("UnsortedSegmentSum", sample("float", _ROW), tensor("int32", [1]), tensor("int32", 2))
    indices = tensor("int32", [[1], [0]])
    for op in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update"):
        updates = nonzero("float", [2, 1, 2], seed=1)
        yield case(f"ResourceScatter{op}", Variable(sample("float", [3, 2])), indices, updates)


def _chosen():
    zero, row, column = tensor("int32", [0]), sample("float", _ROW), sample("float", _COLUMN)
    second = tensor("int32", [[1], [0]])
    for values in (row, column):
        yield case("GatherV2", values, zero, tensor("int32", 0))
        yield case("GatherV2", values, zero, tensor("int32", 1))
        yield case("GatherNd", values, tensor("int32", [[0, 0]]))
        yield case("ResourceGather", Variable(values), zero, dtype=np.float32)
        yield case("Slice", values, tensor("int32", [0, 0]), tensor("int32", [-1, 1]))
        yield case("StridedSlice", values, zero, tensor("int32", [1]), tensor("int32", [-1]),
                   end_mask=1)
        yield case("StridedSlice", values, tensor("int32", [0, 0]), tensor("int32", [1, 1]),
                   tensor("int32", [1, 1]), shrink_axis_mask=2)
        yield case("ReverseV2", values, tensor("int32", [0, 1]))
        yield case("Unpack", values, num=values.shape[1], axis=1)
        yield case("Split", tensor("int32", 1), values, num_split=values.shape[1])
        yield case("SplitV", values, tensor("int32", [0, values.shape[0]]), tensor("int32", 0),
                   num_split=2)
    yield case("ResourceGather", Variable(column), second, dtype=np.float32)
    yield case("ScatterNd", tensor("int32", [[1]]), sample("float", [1, 1]), tensor("int32", [3, 1]))
    pieces = [sample("float", [1, 1]), sample("float", [2, 1])]
    yield case("DynamicStitch", [tensor("int32", [1]), tensor("int32", [0, 2])], pieces)
    for indices in (zero, second):
        yield case("OneHot", indices, tensor("int32", 2), tensor("float", 1), tensor("float", 0))


def _arranged():
    margin = tensor("int32", [[1, 0], [0, 1]])
    for shape in (_ROW, _COLUMN):
        values = sample("float", shape)
        yield case("EnsureShape", values, shape=shape)
        yield case("PlaceholderWithDefault", values, shape=shape)
        yield case("Bitcast", values, type=np.int32)
        yield case("ExpandDims", values, tensor("int32", -1))
        yield case("Reshape", values, tensor("int32", [3]))
        yield case("Pack", [values, sample("float", shape, seed=1)], axis=1)
        yield case("Pack", [values], axis=0)
        yield case("Pad", values, margin)
        yield case("PadV2", values, margin, tensor("float", 0.5))
        yield case("MirrorPad", values, margin, mode="SYMMETRIC")
        padded = sample("float", np.add(shape, 1).tolist())
        yield case("MirrorPadGrad", padded, margin, mode="SYMMETRIC")
        for op in ("Rank", "Shape", "Size"):
            yield case(op, values)
        yield case("ShapeN", [values, sample("float", [1])])
        yield case("VariableShape", Variable(values))
    yield case("MirrorPadGrad", sample("float", [3, 1]), tensor("int32", [[1, 0], [0, 0]]),
               mode="SYMMETRIC")
    yield case("BatchToSpaceND", sample("float", [1, 2, 3]), tensor("int32", [1]),
               tensor("int32", [[0, 1]]))


def _diagonals():
    zero, any_size = tensor("int32", 0), tensor("int32", -1)
    for shape in ([2, 1], [1]):
        diagonal, matrix = sample("float", shape), sample("float", [*shape[:-1], 1, 3], seed=1)
        yield case("MatrixDiag", diagonal)
        yield case("MatrixDiagV3", diagonal, zero, any_size, any_size, tensor("float", 0))
        yield case("MatrixSetDiag", matrix, diagonal)
        yield case("MatrixSetDiagV3", matrix, diagonal, zero)


def _pooling():
    images, window = sample("float", [2, 4, 1, 1]), [1, 2, 1, 1]
    result = images.reshape([2, 2, 2, 1, 1]).max(axis=2)
    gradient = sample("float", [2, 4, 1, 1], seed=1)
    yield case("MaxPoolGradGrad", images, result, gradient, ksize=window, strides=window,
               padding="VALID")


def cases():
    """Yields rows and columns for every op that takes a matrix."""
    for family in (_elementwise, _broadcasts, _reductions, _chosen, _arranged, _diagonals, _pooling):
        yield from family()
