# SPDX-License-Identifier: Apache-2.0
"""MaxPool, MaxPoolGrad and MaxPoolGradGrad, with ties."""

import numpy as np

from case import case, compute, in_nchw
from tensors import NUMERIC, sample, tensor

# Images [batch, height, width, channels], window, strides, padding.
_POOLINGS = (
    ([1, 4, 4, 2], (2, 2), (2, 2), "VALID"),
    ([1, 5, 5, 2], (3, 3), (2, 2), "SAME"),
    ([2, 5, 4, 1], (2, 2), (2, 2), "SAME"),
    ([1, 5, 5, 1], (2, 2), (2, 2), "VALID"),
    ([1, 5, 5, 1], (2, 2), (1, 1), "VALID"),
    ([1, 4, 5, 1], (2, 2), (1, 1), "SAME"),
    ([1, 6, 7, 1], (3, 3), (2, 2), "VALID"),
    ([1, 4, 4, 2], (3, 3), (1, 1), "SAME"),
    ([1, 5, 6, 1], (3, 2), (2, 1), "SAME"),
    ([1, 5, 6, 1], (2, 3), (1, 2), "VALID"),
    ([1, 7, 7, 1], (2, 2), (3, 3), "VALID"),
    ([2, 3, 3, 2], (3, 3), (3, 3), "VALID"),
    ([0, 4, 4, 2], (2, 2), (2, 2), "VALID"),
)


def _pooling(images, window, strides, padding, **more):
    """Yields the pooling and its gradients."""
    attributes = {"ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding}
    attributes.update(more)
    yield case("MaxPool", images, **attributes)
    (result,) = compute("MaxPool", images, **attributes)
    gradient = np.arange(1, result.size + 1).reshape(result.shape).astype(images.dtype)
    yield case("MaxPoolGrad", images, result, gradient, **attributes)
    if padding != "EXPLICIT":
        gradient = np.arange(1, images.size + 1).reshape(images.shape).astype(images.dtype)
        yield case("MaxPoolGradGrad", images, result, gradient, **attributes)


def _explicit_paddings(dtype):
    """Yields explicit paddings in TensorFlow's form: before and after each dimension."""
    for shape, window, strides, paddings in (
        ([1, 4, 5, 2], (2, 2), (2, 2), [0, 0, 1, 0, 0, 1, 0, 0]),
        ([2, 4, 4, 1], (3, 2), (1, 2), [0, 0, 2, 1, 1, 1, 0, 0]),
        ([1, 1, 1, 1], (2, 2), (1, 1), [0, 0, 1, 1, 1, 1, 0, 0]),
    ):
        yield from _pooling(
            sample(dtype, shape), window, strides, "EXPLICIT", explicit_paddings=paddings
        )


def _in_nchw(one_case):
    return in_nchw(one_case, images=range(len(one_case.operands)))


def _infinities():
    """Yields infinities but not NaN, which TensorFlow treats as the maximum only if it is first."""
    images = np.zeros([1, 2, 4, 1])
    images[0, 0, 0, 0], images[0, 1, 3, 0] = -float("inf"), float("inf")
    for dtype in ("float", "double"):
        yield from _pooling(tensor(dtype, images), (2, 2), (2, 2), "VALID")
        yield from _pooling(tensor(dtype, images - 1), (2, 2), (1, 1), "SAME")


def cases():
    """Yields random images, then images that are mostly ties; some have channels first."""
    yield from map(_in_nchw, _explicit_paddings("float"))
    yield from _explicit_paddings("double")
    for shape, *pooling in (_POOLINGS[0], _POOLINGS[2], _POOLINGS[8], _POOLINGS[-1]):
        yield from map(_in_nchw, _pooling(sample("float", shape), *pooling))
    for dtype in NUMERIC:
        for shape, *pooling in _POOLINGS if dtype == "float" else _POOLINGS[:2]:
            yield from _pooling(sample(dtype, shape), *pooling)
    for shape, *pooling in _POOLINGS[:-1]:
        yield from _pooling(sample("float", shape, low=0, high=1).round(), *pooling)
    yield from _pooling(tensor("float", np.zeros([1, 4, 4, 1])), (2, 2), (2, 2), "VALID")
    yield from _pooling(tensor("float", np.full([1, 3, 3, 1], -2)), (3, 3), (1, 1), "SAME")
    yield from _infinities()
