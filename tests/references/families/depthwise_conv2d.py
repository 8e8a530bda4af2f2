# SPDX-License-Identifier: Apache-2.0
"""DepthwiseConv2dNative and its two gradients."""

from case import case, compute, in_nchw
from tensors import FLOATING, sample, tensor

# Images [batch, height, width, channels], filter [height, width, channels, each], stride, padding.
_CONVOLUTIONS = (
    ([1, 5, 5, 2], [3, 3, 2, 1], 1, "SAME"),
    ([2, 5, 4, 3], [3, 3, 3, 2], 1, "VALID"),
    ([1, 7, 5, 2], [3, 2, 2, 2], 2, "SAME"),
    ([1, 6, 7, 1], [3, 3, 1, 3], 2, "VALID"),
    ([2, 4, 4, 3], [1, 1, 3, 1], 1, "SAME"),
    ([1, 4, 3, 17], [2, 2, 17, 1], 1, "SAME"),
    ([1, 1, 1, 1], [1, 1, 1, 1], 1, "VALID"),
    ([1, 2, 2, 1], [3, 3, 1, 2], 1, "SAME"),
    ([0, 5, 5, 2], [3, 3, 2, 2], 1, "SAME"),
)
_EXPLICIT = (
    ([1, 5, 5, 2], [3, 3, 2, 1], 1, [0, 0, 1, 1, 1, 1, 0, 0]),
    ([2, 4, 5, 1], [3, 2, 1, 2], 2, [0, 0, 2, 0, 0, 1, 0, 0]),
)
_FORWARD = "DepthwiseConv2dNative"


def _convolution(dtype, images_shape, filter_shape, stride, padding, **more):
    """Yields the convolution and its gradients, each with its image operands and results."""
    attributes = {"strides": [1, stride, stride, 1], "padding": padding, **more}
    images = sample(dtype, images_shape)
    kernel = sample(dtype, filter_shape, seed=1)
    yield case(_FORWARD, images, kernel, **attributes), {}
    (result,) = compute(_FORWARD, images, kernel, **attributes)
    gradient = sample(dtype, result.shape, seed=2)
    sizes = tensor("int32", images_shape)
    backprop_input = case(f"{_FORWARD}BackpropInput", sizes, kernel, gradient, **attributes)
    yield backprop_input, {"images": (2,), "sizes": (0,)}
    if images_shape[0] == 0:
        return  # TensorFlow does not write the filter gradient; Mirrorflow's is 0
    sizes = tensor("int32", filter_shape)
    backprop_filter = case(f"{_FORWARD}BackpropFilter", images, sizes, gradient, **attributes)
    yield backprop_filter, {"images": (0, 2), "outputs": ()}


def _all(dtype):
    for convolution in _CONVOLUTIONS:
        yield from _convolution(dtype, *convolution)
    for *shapes_and_stride, paddings in _EXPLICIT:
        yield from _convolution(dtype, *shapes_and_stride, "EXPLICIT", explicit_paddings=paddings)


def cases():
    """Yields all convolutions in both layouts."""
    for dtype in FLOATING:
        for one_case, images in _all(dtype):
            yield one_case
            yield in_nchw(one_case, **images)
