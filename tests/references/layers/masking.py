# SPDX-License-Identifier: Apache-2.0
"""Masked steps of sequences."""

import keras
from keras import layers

from layers._case import Case

# A step is kept if both masks are positive. The second mask applies to whole sequences.
_MASKS = (((7, 5), 4), ((7, 1), 2))
_MASKED = ((7, 5, 3), *_MASKS)
_WITH_STATE = (*_MASKED, (7, 4))
_WITH_STATES = (*_MASKED, (7, 4), (7, 4))

_by_masks = lambda layer, x, steps, rows: layer(x, mask=steps * rows > 0)
_from_state = lambda layer, x, steps, rows, *state: layer(
    x, mask=steps * rows > 0, initial_state=list(state)
)
# The results and the last states, side by side.
_with_states = lambda layer, *x: keras.ops.concatenate(_from_state(layer, *x), -1)


def _marked(value):
    """Returns a function that calls the layer on x with this value in all masked steps."""
    return lambda layer, x, steps: layer(keras.ops.where(steps[..., None] > 0, x, value))


def _then(*parts):
    return lambda: keras.Sequential([make() for make in parts], name="model")


def _cases():
    for name, layer in (
        ("simple_rnn", layers.SimpleRNN),
        ("lstm", layers.LSTM),
        ("gru", layers.GRU),
    ):
        with_state = _WITH_STATES if name == "lstm" else _WITH_STATE
        yield Case(f"{name}_masked", lambda layer=layer: layer(4), _MASKED, _by_masks)
        yield Case(
            f"{name}_masked_sequences",
            lambda layer=layer: layer(4, return_sequences=True),
            _MASKED,
            _by_masks,
        )
        yield Case(
            f"{name}_masked_backwards",
            lambda layer=layer: layer(4, return_sequences=True, go_backwards=True),
            _MASKED,
            _by_masks,
        )
        yield Case(
            f"{name}_masked_sequences_from_state",
            lambda layer=layer: layer(4, return_sequences=True),
            with_state,
            _from_state,
        )
        yield Case(
            f"{name}_masked_states",
            lambda layer=layer: layer(4, return_state=True),
            with_state,
            _with_states,
        )
    for backwards in (False, True):
        yield Case(
            f"lstm_masked_zeros{'_backwards' * backwards}",
            lambda backwards=backwards: layers.LSTM(
                4, return_sequences=True, go_backwards=backwards, zero_output_for_mask=True
            ),
            _MASKED,
            _by_masks,
        )
    yield Case(
        "bidirectional_lstm_masked",
        lambda: layers.Bidirectional(layers.LSTM(4)),
        _MASKED,
        _by_masks,
    )
    yield Case(
        "bidirectional_gru_masked_sequences",
        lambda: layers.Bidirectional(layers.GRU(4, return_sequences=True)),
        _MASKED,
        _by_masks,
    )
    marked = ((7, 5, 3), ((7, 5), 3))
    yield Case("masking", layers.Masking, marked, _marked(0.0))
    yield Case("masking_value", lambda: layers.Masking(0.5), marked, _marked(0.5))
    # Sequential passes the masks on.
    yield Case(
        "masking_lstm",
        _then(lambda: layers.Masking(0.5), lambda: layers.LSTM(4)),
        marked,
        _marked(0.5),
    )
    yield Case(
        "embedding_gru",
        _then(lambda: layers.Embedding(9, 4, mask_zero=True), lambda: layers.GRU(4)),
        (((7, 5), 4),),
    )


CASES = list(_cases())
