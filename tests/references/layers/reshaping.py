# SPDX-License-Identifier: Apache-2.0
"""Layers that rearrange, repeat, pad and crop."""

from keras import layers

from layers._case import Case

_SEQUENCE = ((7, 5, 3),)
_IMAGES = ((7, 4, 5, 2),)

CASES = [
    Case("flatten", layers.Flatten, _IMAGES),
    Case("flatten_of_vector", layers.Flatten, ((7,),)),
    Case("reshape", lambda: layers.Reshape((5, 8)), _IMAGES),
    Case("reshape_inferred", lambda: layers.Reshape((2, -1, 5)), _IMAGES),
    Case("permute", lambda: layers.Permute((3, 1, 2)), _IMAGES),
    Case("repeat_vector", lambda: layers.RepeatVector(3), ((7, 4),)),
    Case("up_sampling1d", layers.UpSampling1D, _SEQUENCE),
    Case("up_sampling2d", layers.UpSampling2D, _IMAGES),
    Case("up_sampling2d_oblong", lambda: layers.UpSampling2D((3, 1)), _IMAGES),
    Case(
        "up_sampling2d_bilinear",
        lambda: layers.UpSampling2D((2, 3), interpolation="bilinear"),
        _IMAGES,
    ),
    Case("zero_padding1d", layers.ZeroPadding1D, _SEQUENCE),
    Case("zero_padding1d_uneven", lambda: layers.ZeroPadding1D((2, 0)), _SEQUENCE),
    Case("zero_padding2d", layers.ZeroPadding2D, _IMAGES),
    Case("zero_padding2d_uneven", lambda: layers.ZeroPadding2D(((0, 1), (2, 3))), _IMAGES),
    Case("cropping1d", layers.Cropping1D, _SEQUENCE),
    Case("cropping1d_uneven", lambda: layers.Cropping1D((0, 2)), _SEQUENCE),
    Case("cropping2d", lambda: layers.Cropping2D((1, 2)), _IMAGES),
    Case("cropping2d_uneven", lambda: layers.Cropping2D(((0, 1), (2, 0))), _IMAGES),
]
