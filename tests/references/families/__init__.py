# SPDX-License-Identifier: Apache-2.0
"""The families of cases: one module each, with a generator `cases()`."""

import importlib

_NAMES = (
    "accumulate",
    "activation",
    "array_gradients",
    "assertion",
    "avg_pool",
    "batch_norm",
    "batch_norm_gradients",
    "bias_add",
    "binary",
    "binary_math",
    "bitwise",
    "cast",
    "clip_by_value",
    "conv2d",
    "cumulative",
    "depthwise_conv2d",
    "einsum",
    "gradients",
    "indexing",
    "joining",
    "places",
    "layout",
    "matmul",
    "matrix_diag",
    "max_pool",
    "one_hot",
    "padding",
    "passing",
    "reduced_others",
    "reduced_precision",
    "reduction",
    "resource_scatter",
    "select",
    "shape",
    "size_one",
    "slicing",
    "softmax",
    "space_to_batch",
    "splitting",
    "stateless_random",
    "top_k",
    "unary",
    "unary_grad",
    "unary_math",
    "variable",
)


def modules(*names):
    return tuple(importlib.import_module(f"families.{name}") for name in names)


FAMILIES = dict(zip(_NAMES, modules(*_NAMES)))
