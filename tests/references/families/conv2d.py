# SPDX-License-Identifier: Apache-2.0
"""Conv2D and its two gradients."""

from case import case, compute, in_nchw
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


# The filter has the channels of one group.
_GROUPED = (
    ([1, 5, 5, 4], [3, 3, 2, 4], (1, 1), "SAME"),
    ([2, 4, 5, 6], [3, 2, 2, 3], (2, 1), "VALID"),
    ([2, 3, 3, 3], [1, 1, 1, 6], (1, 1), "SAME"),
    ([1, 3, 4, 32], [2, 2, 16, 2], (2, 2), "SAME"),
    ([0, 4, 4, 4], [2, 2, 2, 2], (1, 1), "VALID"),
)

# Convolutions with explicit paddings and dilations.
_EXPLICIT = (
    ([1, 5, 5, 2], [3, 3, 2, 2], (1, 1), [0, 0, 1, 1, 1, 1, 0, 0]),
    ([2, 4, 5, 1], [3, 2, 1, 3], (2, 1), [0, 0, 2, 0, 0, 3, 0, 0]),
    ([1, 3, 3, 2], [1, 1, 2, 2], (2, 2), [0, 0, 1, 2, 2, 1, 0, 0]),
    ([1, 1, 1, 1], [2, 2, 1, 1], (1, 1), [0, 0, 3, 3, 3, 3, 0, 0]),
    ([0, 4, 4, 1], [3, 3, 1, 1], (1, 1), [0, 0, 1, 1, 1, 1, 0, 0]),
)
_DILATED = (
    ([1, 7, 7, 2], [3, 3, 2, 2], (1, 1), "VALID", (2, 2)),
    ([2, 5, 6, 1], [3, 2, 1, 2], (1, 1), "SAME", (2, 3)),
    ([1, 9, 8, 1], [3, 3, 1, 1], (2, 1), "SAME", (3, 2)),
    ([1, 3, 3, 1], [3, 3, 1, 2], (1, 1), "SAME", (4, 4)),
    ([0, 5, 5, 1], [3, 3, 1, 2], (1, 1), "VALID", (2, 2)),
)


def _explicit(dtype, images_shape, filter_shape, strides, paddings):
    yield from _convolution(
        dtype, images_shape, filter_shape, strides, "EXPLICIT", explicit_paddings=paddings
    )


def _grouped(dtype, images_shape, filter_shape, strides, padding):
    """Yields only the convolution, because TensorFlow has no gradients for groups on a CPU."""
    yield case(
        "Conv2D",
        sample(dtype, images_shape),
        sample(dtype, filter_shape, seed=1),
        strides=[1, *strides, 1],
        padding=padding,
    )


def _dilated(dtype, images_shape, filter_shape, strides, padding, dilations):
    """Yields only the convolution, because TensorFlow has no dilated gradients on a CPU."""
    yield case(
        "Conv2D",
        sample(dtype, images_shape),
        sample(dtype, filter_shape, seed=1),
        strides=[1, *strides, 1],
        padding=padding,
        dilations=[1, *dilations, 1],
    )


# The operands of each op that are images, and those that are image sizes.
_IMAGES = {
    "Conv2D": {},
    "Conv2DBackpropInput": {"images": (2,), "sizes": (0,)},
    "Conv2DBackpropFilter": {"images": (0, 2), "outputs": ()},
}


def _in_nchw(one_case):
    return in_nchw(one_case, **_IMAGES[one_case.op])


def _convolution(dtype, images_shape, filter_shape, strides, padding, **more):
    """Yields the convolution and its gradients for one output gradient."""
    attributes = {"strides": [1, *strides, 1], "padding": padding, **more}
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
    """Yields all convolutions for float, some for double and int32 (without a filter gradient)."""
    for convolution in _CONVOLUTIONS:
        yield from _convolution("float", *convolution)
    for convolution in _CONVOLUTIONS[:4]:
        yield from _convolution("double", *convolution)
    for dtype in FLOATING:
        for explicit in _EXPLICIT:
            yield from _explicit(dtype, *explicit)
        for grouped in _GROUPED:
            yield from _grouped(dtype, *grouped)
        yield from map(_in_nchw, _grouped(dtype, *_GROUPED[1]))
        for dilated in _DILATED:
            yield from _dilated(dtype, *dilated)
        for convolution in (*_CONVOLUTIONS[:7], *_CONVOLUTIONS[-2:]):
            yield from map(_in_nchw, _convolution(dtype, *convolution))
        yield from map(_in_nchw, _explicit(dtype, *_EXPLICIT[1]))
        yield from map(_in_nchw, _dilated(dtype, *_DILATED[1]))
    yield from _convolution("int32", *_CONVOLUTIONS[0])
    yield from _convolution("int32", *_CONVOLUTIONS[4])
