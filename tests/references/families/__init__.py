# SPDX-License-Identifier: Apache-2.0
"""The families of cases: a module each, with a generator `cases()`."""

import importlib

_NAMES = (
    "avg_pool",
    "bias_add",
    "binary",
    "cast",
    "conv2d",
    "indexing",
    "joining",
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
    "variable",
)
FAMILIES = {name: importlib.import_module(f"families.{name}") for name in _NAMES}
