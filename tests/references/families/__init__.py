# SPDX-License-Identifier: Apache-2.0
"""The families of cases: a module each, with a generator `cases()`."""

import importlib

_NAMES = (
    "accumulate",
    "activation",
    "array_gradients",
    "avg_pool",
    "batch_norm",
    "bias_add",
    "binary",
    "binary_math",
    "bitwise",
    "cast",
    "clip_by_value",
    "conv2d",
    "cumulative",
    "depthwise_conv2d",
    "gradients",
    "indexing",
    "joining",
    "places",
    "layout",
    "matmul",
    "max_pool",
    "one_hot",
    "padding",
    "passing",
    "reduced_precision",
    "reduction",
    "select",
    "shape",
    "slicing",
    "softmax",
    "splitting",
    "unary",
    "unary_grad",
    "unary_math",
    "variable",
)
FAMILIES = {name: importlib.import_module(f"families.{name}") for name in _NAMES}
