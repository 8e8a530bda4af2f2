# SPDX-License-Identifier: Apache-2.0
"""Gradients of element-wise ops, as ops of the forward result (or input) and its gradient."""

from case import case
from tensors import FLOATING, INTEGER, NUMERIC, sample, tensor

_INF = float("inf")
_NAN = float("nan")

# The range of the forward results.
_OF_RESULT = {
    "ReciprocalGrad": (-3, 3),
    "RsqrtGrad": (0.2, 3),
    "SigmoidGrad": (0.01, 0.99),
    "SqrtGrad": (0.2, 3),
    "TanhGrad": (-0.99, 0.99),
}


def _result_grads(op, low, high):
    for dtype in FLOATING:
        for shape in ([17], [2, 3], [], [0, 3]):
            result = sample(dtype, shape, low=low, high=high)
            yield case(op, result, sample(dtype, shape, seed=1))
        ends = [0, 1, -1, _NAN] if low < 0 else [0, 1, _NAN]
        yield case(op, tensor(dtype, ends), tensor(dtype, [2] * len(ends)))


def _relu_grad():
    for dtype in FLOATING:
        for shape in ([17], [2, 3], [], [0, 3]):
            yield case("ReluGrad", sample(dtype, shape), sample(dtype, shape, seed=1))
        features = tensor(dtype, [-_INF, -1, -0.0, 0, 1e-30, 1, _INF])
        yield case("ReluGrad", tensor(dtype, [2] * 7), features)
    for dtype in INTEGER:
        features = tensor(dtype, [0, 1, 2, 0, 7])
        yield case("ReluGrad", tensor(dtype, [1, 2, 3, 4, 5]), features)
    for dtype in NUMERIC:
        yield case("ReluGrad", tensor(dtype, []), tensor(dtype, []))


def cases():
    """Yields cases with ordinary, empty and boundary operands."""
    yield from _relu_grad()
    for op, (low, high) in _OF_RESULT.items():
        yield from _result_grads(op, low, high)
