# SPDX-License-Identifier: Apache-2.0
"""Softmax, LogSoftmax and their cross entropies."""

import numpy as np

from case import case
from tensors import FLOATING, INDEX, sample, tensor

_INF = float("inf")

_SHAPES = ([2, 3], [1, 5], [4], [2, 2, 3], [3, 1], [2, 17], [0, 4], [2, 0])
_EXTREME = [[1000, 1001, 999], [-1000, -1001, -999], [0, 0, 0], [-_INF, 1, 2], [80, -5, 3]]
_SPARSE = "SparseSoftmaxCrossEntropyWithLogits"


_DENSE = "SoftmaxCrossEntropyWithLogits"
# Features and labels that broadcast to a matrix.
_BROADCASTS = (
    ([3, 4], [1, 4]),
    ([1, 4], [3, 4]),
    ([4], [2, 4]),
    ([2, 4], [4]),
    ([3, 1], [1, 4]),
)


def _distributions(dtype, shape):
    """Returns labels that sum to exactly 1, so TensorFlow's gradient is that of its loss."""
    labels = np.zeros(shape)
    labels[..., 0] += 0.25
    labels[..., shape[-1] // 2] += 0.5
    labels[..., -1] += 0.25
    return tensor(dtype, labels)


def _dense_entropies(dtype):
    for shape in ([3, 4], [1, 1], [5, 10], [0, 4], [1, 3], [2, 17]):
        yield case(_DENSE, sample(dtype, shape), _distributions(dtype, shape))
    for features, labels in _BROADCASTS:
        yield case(_DENSE, sample(dtype, features), _distributions(dtype, labels))
    yield case(_DENSE, tensor(dtype, _EXTREME), _distributions(dtype, [5, 3]))
    yield case(_DENSE, tensor(dtype, _EXTREME[-2:]), tensor(dtype, [[0, 0, 1], [0, 0, 0]]))
    nan = tensor(dtype, [[1, float("nan"), 2], [_INF, 1, 2], [0, 1, 2]])
    yield case(_DENSE, nan, _distributions(dtype, [3, 3]))


def _entropies(dtype, label_type):
    for rows, classes in ((3, 4), (1, 1), (5, 10), (0, 4)):
        labels = sample(label_type, [rows], seed=1, low=0, high=classes - 1)
        yield case(_SPARSE, sample(dtype, [rows, classes]), labels)
    yield case(_SPARSE, tensor(dtype, _EXTREME), tensor(label_type, [0, 2, 1, 2, 0]))
    for label in (4, -1):
        labels = tensor(label_type, [0, label, 3])
        yield case(_SPARSE, sample(dtype, [3, 4]), labels, fails=True)


def cases():
    """Yields ordinary and extreme logits, and labels in and out of range."""
    for dtype in FLOATING:
        for shape in _SHAPES:
            yield case("Softmax", sample(dtype, shape))
        yield case("Softmax", tensor(dtype, _EXTREME))
        for shape in _SHAPES:
            yield case("LogSoftmax", sample(dtype, shape))
        yield case("LogSoftmax", tensor(dtype, _EXTREME))
        yield from _dense_entropies(dtype)
        for label_type in INDEX:
            yield from _entropies(dtype, label_type)
