# SPDX-License-Identifier: Apache-2.0
"""Layers that are activations."""

from keras import layers

from layers._case import Case

_ROWS = ((7, 6),)
_IMAGES = ((7, 3, 2, 4),)


def _triple(layer, x):
    """Calls the layer on larger numbers, to reach a limit at 2."""
    return layer(3 * x)


def _masked(layer, x, mask):
    """Calls the softmax layer on half of x where the mask is positive."""
    return layer(0.5 * x, mask > 0)


CASES = [
    Case("relu", layers.ReLU, _ROWS),
    Case(
        "relu_limited",
        lambda: layers.ReLU(max_value=2, negative_slope=0.25, threshold=0.5),
        _ROWS,
        _triple,
    ),
    Case("leaky_relu", layers.LeakyReLU, _ROWS),
    Case("leaky_relu_steep", lambda: layers.LeakyReLU(0.75), _ROWS),
    Case("prelu", layers.PReLU, _IMAGES),
    Case("prelu_shared", lambda: layers.PReLU(shared_axes=[1, 2]), _IMAGES),
    Case("elu", layers.ELU, _ROWS),
    Case("elu_scaled", lambda: layers.ELU(0.5), _ROWS),
    Case("softmax", layers.Softmax, _ROWS),
    Case("softmax_of_rows", lambda: layers.Softmax(1), _IMAGES),
    Case("masked_softmax", layers.Softmax, ((7, 3, 5), ((7, 1, 5), 9)), _masked),
]
