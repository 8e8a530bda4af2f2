# SPDX-License-Identifier: Apache-2.0
"""Softmax and SparseSoftmaxCrossEntropyWithLogits."""

from case import case
from tensors import FLOATING, INDEX, sample, tensor

_INF = float("inf")

_SHAPES = ([2, 3], [1, 5], [4], [2, 2, 3], [3, 1], [2, 17], [0, 4], [2, 0])
_EXTREME = [[1000, 1001, 999], [-1000, -1001, -999], [0, 0, 0], [-_INF, 1, 2], [80, -5, 3]]
_ENTROPY = "SparseSoftmaxCrossEntropyWithLogits"


def _entropies(dtype, label_type):
    for rows, classes in ((3, 4), (1, 1), (5, 10), (0, 4)):
        labels = sample(label_type, [rows], seed=1, low=0, high=classes - 1)
        yield case(_ENTROPY, sample(dtype, [rows, classes]), labels)
    yield case(_ENTROPY, tensor(dtype, _EXTREME), tensor(label_type, [0, 2, 1, 2, 0]))
    for label in (4, -1):
        labels = tensor(label_type, [0, label, 3])
        yield case(_ENTROPY, sample(dtype, [3, 4]), labels, fails=True)


def cases():
    """Ordinary and extreme logits; labels in and out of range."""
    for dtype in FLOATING:
        for shape in _SHAPES:
            yield case("Softmax", sample(dtype, shape))
        yield case("Softmax", tensor(dtype, _EXTREME))
        for label_type in INDEX:
            yield from _entropies(dtype, label_type)
