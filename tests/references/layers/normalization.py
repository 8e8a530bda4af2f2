# SPDX-License-Identifier: Apache-2.0
"""Normalisation of batches, of groups of channels and of rows."""

from keras import layers

from layers._case import Case

_ROWS = ((7, 6),)
_IMAGES = ((7, 3, 2, 6),)

_in_training = lambda layer, x: layer(x, training=True)

CASES = [
    Case("batch_normalization", layers.BatchNormalization, _ROWS, _in_training),
    Case(
        "batch_normalization_of_sequence",
        layers.BatchNormalization,
        ((7, 4, 3),),
        _in_training,
    ),
    Case(
        "batch_normalization_of_images",
        lambda: layers.BatchNormalization(epsilon=0.1),
        _IMAGES,
        _in_training,
    ),
    # The moving variances are operands in [-1, 1), so epsilon must exceed 1.
    Case(
        "batch_normalization_in_inference",
        lambda: layers.BatchNormalization(epsilon=1.5),
        _IMAGES,
    ),
    Case(
        "batch_normalization_of_rows_in_inference",
        lambda: layers.BatchNormalization(epsilon=1.25),
        _ROWS,
    ),
    Case("layer_normalization", layers.LayerNormalization, _ROWS),
    Case(
        "layer_normalization_of_images", lambda: layers.LayerNormalization(epsilon=0.1), _IMAGES
    ),
    Case("group_normalization", lambda: layers.GroupNormalization(3), _IMAGES),
    Case("group_normalization_of_rows", lambda: layers.GroupNormalization(2, epsilon=0.1), _ROWS),
    Case(
        "instance_normalization",
        lambda: layers.GroupNormalization(-1, scale=False),
        _IMAGES,
    ),
    Case("group_normalization_bare", lambda: layers.GroupNormalization(1, center=False), _IMAGES),
    Case("rms_normalization", layers.RMSNormalization, _ROWS),
    Case("rms_normalization_of_images", lambda: layers.RMSNormalization(epsilon=0.1), _IMAGES),
    Case("unit_normalization", layers.UnitNormalization, _ROWS),
]
