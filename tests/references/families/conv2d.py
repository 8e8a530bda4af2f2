# SPDX-License-Identifier: Apache-2.0
"""Conv2D in NHWC and its two gradients."""

from case import case, compute
from tensors import FLOATING, sample, tensor

# Images [batch, height, width, channels], filter [height, width, in, out], strides, padding.
_CONVOLUTIONS = (
    ([1, 5, 5, 2], [3, 3, 2, 2], (1, 1), "SAME"),
    ([2, 5, 4, 2], [3, 3, 2, 2], (1, 1), "VALID"),
    ([1, 7, 5, 1], [3, 3, 1, 2], (2, 2), "SAME"),
    ([1, 6, 6, 1], [3, 3, 1, 2], (2, 2), "SAME"),
    ([1, 6, 7, 1], [3, 3, 1, 2], (2, 2), "VALID"),
    ([2, 4, 4, 3], [1, 1, 3, 4], (1, 1), "SAME"),
    ([1, 5, 5, 3], [1, 1, 3, 2], (2, 2), "VALID"),
    ([1, 5, 6, 3], [1, 1, 3, 2], (2, 2), "SAME"),
    ([1, 7, 7, 1], [5, 5, 1, 2], (1, 1), "SAME"),
    ([1, 7, 6, 1], [5, 5, 1, 2], (1, 1), "VALID"),
    ([1, 7, 7, 1], [5, 5, 1, 1], (2, 2), "SAME"),
    ([1, 6, 5, 2], [3, 3, 2, 1], (2, 1), "SAME"),
    ([1, 5, 7, 2], [3, 2, 2, 1], (1, 2), "VALID"),
    ([1, 4, 4, 1], [2, 2, 1, 1], (1, 1), "SAME"),
    ([1, 2, 2, 1], [3, 3, 1, 1], (1, 1), "SAME"),
    ([1, 5, 5, 1], [2, 2, 1, 1], (3, 3), "SAME"),
    ([1, 5, 4, 1], [5, 4, 1, 3], (1, 1), "VALID"),
    ([0, 5, 5, 2], [3, 3, 2, 2], (1, 1), "SAME"),
    ([0, 5, 5, 2], [3, 3, 2, 2], (2, 2), "VALID"),
)


def _convolution(dtype, images_shape, filter_shape, strides, padding):
    """The convolution and its gradients, of one output gradient."""
    attributes = {"strides": [1, *strides, 1], "padding": padding}
    images = sample(dtype, images_shape)
    kernel = sample(dtype, filter_shape, seed=1)
    yield case("Conv2D", images, kernel, **attributes)
    (result,) = compute("Conv2D", images, kernel, **attributes)
    gradient = sample(dtype, result.shape, seed=2)
    yield case(
        "Conv2DBackpropInput", tensor("int32", images_shape), kernel, gradient, **attributes
    )
    if dtype in FLOATING:
        yield case(
            "Conv2DBackpropFilter", images, tensor("int32", filter_shape), gradient, **attributes
        )


def cases():
    """All convolutions for float, some for double and int32 (which has no filter gradient)."""
    for convolution in _CONVOLUTIONS:
        yield from _convolution("float", *convolution)
    for convolution in _CONVOLUTIONS[:4]:
        yield from _convolution("double", *convolution)
    yield from _convolution("int32", *_CONVOLUTIONS[0])
    yield from _convolution("int32", *_CONVOLUTIONS[4])
