# SPDX-License-Identifier: Apache-2.0
"""Gradients of the other ops by tf.gradients, at the operands of their cases, in double."""

import dataclasses

import numpy as np

from case import Variable
from case import gradient_text as case_text  # how make_cases.py writes this family
from families import modules

_MODULES = modules(
    "accumulate",
    "avg_pool",
    "bias_add",
    "conv2d",
    "depthwise_conv2d",
    "einsum",
    "indexing",
    "joining",
    "layout",
    "matmul",
    "matrix_diag",
    "max_pool",
    "one_hot",
    "padding",
    "passing",
    "places",
    "shape",
    "slicing",
    "softmax",
    "space_to_batch",
    "splitting",
    "top_k",
)
_MOST_ELEMENTS = 64
# Ops that have no gradient in TensorFlow, or that need none.
_WITHOUT = {
    "Assert",
    "Bitcast",
    "CheckNumericsV2",
    "ListDiff",
    "PreventGradient",
    "Range",
    "Snapshot",
    "StopGradient",
}


def _arrays(one_case):
    for operand in one_case.operands:
        yield from operand if isinstance(operand, list) else [operand]


def _differs_in_tensorflow(one_case):
    """Returns whether TensorFlow's gradient rejects an operand or differs from the derivative."""
    arrays = list(_arrays(one_case))
    if one_case.op == "Conv2D":
        return arrays[0].shape[3] != arrays[1].shape[2]  # grouped convolution
    if one_case.op == "DynamicStitch":  # the last duplicate wins, but each gets the gradient
        indices = np.concatenate([array.flatten() for array in one_case.operands[0]])
        return len(set(indices)) < len(indices)
    if one_case.op in ("MatrixDiagPartV3", "MatrixDiagV3", "PadV2"):
        return True  # the padding value has no gradient
    if one_case.op == "ConcatV2":
        return arrays[-1].dtype == "int64"
    if one_case.op == "GatherNd":
        return arrays[1].ndim < 2 or arrays[1].shape[-1] == 0
    if one_case.op == "Tile":  # its gradient doubles the rank, which must be at most 8
        return arrays[0].ndim > 4
    if one_case.op == "TopKV2":
        return one_case.attributes.get("index_type") == np.int64
    if one_case.op == "UnsortedSegmentSum":
        return arrays[2] == 0
    if one_case.op == "SoftmaxCrossEntropyWithLogits":
        return arrays[0].shape != arrays[1].shape
    return False


def _has_gradient(one_case):
    arrays = list(_arrays(one_case))
    if one_case.fails or one_case.op in _WITHOUT:
        return False
    if any(isinstance(array, Variable) for array in arrays):
        return False
    # On a CPU, TensorFlow has no gradients for channels first or dilations.
    if one_case.channels_first or "dilations" in one_case.attributes:
        return False
    floats = [array for array in arrays if array.dtype == "float32"]
    few = all(0 < array.size <= _MOST_ELEMENTS for array in floats)
    return bool(floats) and few and not _differs_in_tensorflow(one_case)


def _in_double(one_case):
    """Returns the case with its floats in double precision, keeping their few digits."""

    def convert(value):
        if isinstance(value, list):
            return [convert(item) for item in value]
        return np.round(value.astype("float64"), 2) if value.dtype == "float32" else value

    operands = tuple(convert(operand) for operand in one_case.operands)
    return dataclasses.replace(one_case, operands=operands)


def cases():
    """Yields the float cases, converted to double, because the families have few double cases."""
    for module in _MODULES:
        yield from map(_in_double, filter(_has_gradient, module.cases()))


__all__ = ["case_text", "cases"]
