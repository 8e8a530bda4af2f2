# SPDX-License-Identifier: Apache-2.0
"""Gradients of element-wise ops and reductions by tf.gradients, at the operands of their cases."""

import numpy as np

from case import gradient_text as case_text  # how make_cases.py writes this family
from families import modules

_MODULES = modules(
    "activation",
    "binary",
    "binary_math",
    "clip_by_value",
    "cumulative",
    "reduction",
    "select",
    "unary",
    "unary_grad",
    "unary_math",
)
_MOST_ELEMENTS = 100
# Ops that have no gradient in TensorFlow, or a gradient without numbers.
_WITHOUT = {"SoftsignGrad", "Mod", "TruncateMod", "StopGradient"}

# TensorFlow's gradients of these ops do not support axes of int64.
_WITH_INT32_AXES = {"EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum"}


def _has_gradient(one_case):
    arrays = one_case.operands
    if one_case.op in _WITH_INT32_AXES and any(array.dtype == "int64" for array in arrays):
        return False
    if one_case.op == "Prod" and not np.isfinite(arrays[0]).all():
        return False  # Mirrorflow divides by the element, and TensorFlow multiplies all others
    return (
        not one_case.fails
        and one_case.op not in _WITHOUT
        and any(array.dtype == "float64" for array in arrays)
        and not any(array.dtype == "float32" for array in arrays)
        and all(0 < array.size <= _MOST_ELEMENTS for array in arrays if array.dtype == "float64")
    )


def cases():
    """Yields the double cases of the other families."""
    for module in _MODULES:
        yield from filter(_has_gradient, module.cases())


__all__ = ["case_text", "cases"]
