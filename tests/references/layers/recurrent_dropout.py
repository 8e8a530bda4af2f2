# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers in training, with fixed factors instead of those that dropout draws.

The factors of x are [batch, factors, in]; those of the state are [batch, gates, units].
"""

import tensorflow as tf
from keras import layers

from layers._case import Case


def _dropped(layer, x, factors, recurrent_factors):
    cell = layer.cell
    single = isinstance(cell, layers.SimpleRNNCell) or not cell.recurrent_dropout
    pieces = lambda value: value[:, 0] if single else tf.unstack(value, axis=1)
    cell.get_dropout_mask = lambda _: pieces(factors) if cell.dropout else None
    cell.get_recurrent_dropout_mask = lambda _: (
        pieces(recurrent_factors) if cell.recurrent_dropout else None
    )
    return layer(x, training=True)


def _on_x(layer, x, factors):
    return _dropped(layer, x, factors, None)


def _on_state(layer, x, recurrent_factors):
    return _dropped(layer, x, None, recurrent_factors)


def _cases():
    for name, layer, gates, options in (
        ("simple_rnn", layers.SimpleRNN, 1, {}),
        ("lstm", layers.LSTM, 4, {}),
        ("gru", layers.GRU, 3, {}),
        ("gru_reset_before", layers.GRU, 3, {"reset_after": False}),
        ("gru_without_bias", layers.GRU, 3, {"use_bias": False, "go_backwards": True}),
    ):
        make = lambda layer=layer, options=options, **more: layer(
            4, return_sequences=True, **options, **more
        )
        yield Case(
            f"{name}_dropout",
            lambda make=make: make(dropout=0.5),
            ((7, 5, 3), (7, 1, 3)),
            _on_x,
        )
        yield Case(
            f"{name}_recurrent_dropout",
            lambda make=make: make(recurrent_dropout=0.5),
            ((7, 5, 3), (7, gates, 4)),
            _on_state,
        )
        yield Case(
            f"{name}_both_dropouts",
            lambda make=make: make(dropout=0.5, recurrent_dropout=0.5),
            ((7, 5, 3), (7, gates, 3), (7, gates, 4)),
            _dropped,
        )


CASES = list(_cases())
