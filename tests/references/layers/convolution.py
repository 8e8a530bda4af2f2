# SPDX-License-Identifier: Apache-2.0
"""Convolutions in one, two and three dimensions."""

from keras import layers

from layers._case import Case

_SEQUENCE = ((7, 9, 2),)
_IMAGES = ((7, 6, 5, 2),)
_GROUPED = ((7, 5, 4, 4),)
_SMALL = ((7, 3, 4, 2),)
_VOLUMES = ((7, 4, 5, 3, 2),)

CASES = [
    Case("conv1d", lambda: layers.Conv1D(3, 3), _SEQUENCE),
    Case("conv1d_same", lambda: layers.Conv1D(3, 4, strides=2, padding="same"), _SEQUENCE),
    Case("conv1d_causal", lambda: layers.Conv1D(3, 3, padding="causal"), _SEQUENCE),
    Case(
        "conv1d_causal_dilated",
        lambda: layers.Conv1D(3, 2, padding="causal", dilation_rate=3),
        _SEQUENCE,
    ),
    Case(
        "conv1d_causal_strided",
        lambda: layers.Conv1D(3, 3, strides=2, padding="causal"),
        _SEQUENCE,
    ),
    Case("conv1d_grouped", lambda: layers.Conv1D(4, 3, groups=2), _SEQUENCE, compiled=True),
    Case("conv2d", lambda: layers.Conv2D(3, 3, activation="tanh"), _IMAGES),
    Case("conv2d_same", lambda: layers.Conv2D(3, 3, strides=2, padding="same"), _IMAGES),
    Case("conv2d_oblong", lambda: layers.Conv2D(3, (2, 3), strides=(2, 1)), _IMAGES),
    Case(
        "conv2d_dilated", lambda: layers.Conv2D(3, 2, dilation_rate=(3, 2), use_bias=False), _IMAGES
    ),
    Case(
        "conv2d_grouped",
        lambda: layers.Conv2D(6, 3, padding="same", groups=2),
        _GROUPED,
        compiled=True,
    ),
    Case("conv3d", lambda: layers.Conv3D(3, 2), _VOLUMES),
    Case(
        "conv3d_same", lambda: layers.Conv3D(2, (3, 2, 3), strides=2, padding="same"), _VOLUMES
    ),
    Case(
        "conv3d_oblong",
        lambda: layers.Conv3D(2, (2, 3, 1), strides=(2, 1, 2), use_bias=False),
        _VOLUMES,
    ),
    Case("conv3d_dilated", lambda: layers.Conv3D(2, 2, dilation_rate=(3, 2, 1)), _VOLUMES),
    Case("depthwise_conv2d", lambda: layers.DepthwiseConv2D(3), _IMAGES),
    Case(
        "depthwise_conv2d_multiplied",
        lambda: layers.DepthwiseConv2D(
            (2, 3), strides=2, padding="same", depth_multiplier=3, activation="tanh"
        ),
        _IMAGES,
    ),
    Case("depthwise_conv2d_dilated", lambda: layers.DepthwiseConv2D(2, dilation_rate=2), _IMAGES),
    Case("separable_conv2d", lambda: layers.SeparableConv2D(3, 3), _IMAGES),
    Case(
        "separable_conv2d_multiplied",
        lambda: layers.SeparableConv2D(
            3, (3, 2), strides=2, padding="same", depth_multiplier=2, activation="tanh"
        ),
        _IMAGES,
    ),
    Case("conv2d_transpose", lambda: layers.Conv2DTranspose(3, 3), _SMALL),
    Case(
        "conv2d_transpose_same",
        lambda: layers.Conv2DTranspose(3, 3, strides=2, padding="same", activation="tanh"),
        _SMALL,
    ),
    Case(
        "conv2d_transpose_valid", lambda: layers.Conv2DTranspose(3, (2, 3), strides=(3, 2)), _SMALL
    ),
    Case(
        "conv2d_transpose_output_padding",
        lambda: layers.Conv2DTranspose(3, 3, strides=2, padding="same", output_padding=0),
        _SMALL,
    ),
    Case("conv1d_transpose", lambda: layers.Conv1DTranspose(3, 3, strides=2), ((7, 4, 2),)),
]
