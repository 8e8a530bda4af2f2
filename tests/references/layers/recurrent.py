# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers."""

from keras import layers

from layers._case import Case

_SEQUENCE = ((7, 5, 3),)
_WITH_STATE = ((7, 5, 3), (7, 4))
_WITH_STATES = ((7, 5, 3), (7, 4), (7, 4))

_from_state = lambda layer, x, *state: layer(x, initial_state=list(state))


def _cases():
    for name, layer in (
        ("simple_rnn", layers.SimpleRNN),
        ("lstm", layers.LSTM),
        ("gru", layers.GRU),
    ):
        yield Case(name, lambda layer=layer: layer(4), _SEQUENCE)
        yield Case(
            f"{name}_sequences", lambda layer=layer: layer(4, return_sequences=True), _SEQUENCE
        )
        yield Case(
            f"{name}_backwards",
            lambda layer=layer: layer(4, return_sequences=True, go_backwards=True),
            _SEQUENCE,
        )
        yield Case(
            f"{name}_without_bias",
            lambda layer=layer: layer(4, activation="relu", use_bias=False),
            _SEQUENCE,
        )
        yield Case(
            f"{name}_from_state",
            lambda layer=layer: layer(4),
            _WITH_STATES if name == "lstm" else _WITH_STATE,
            _from_state,
        )
    yield Case("gru_reset_before", lambda: layers.GRU(4, reset_after=False), _SEQUENCE)
    yield Case(
        "lstm_with_relu_gates", lambda: layers.LSTM(4, recurrent_activation="relu"), _SEQUENCE
    )
    yield Case("bidirectional_lstm", lambda: layers.Bidirectional(layers.LSTM(4)), _SEQUENCE)
    yield Case(
        "bidirectional_gru_sequences",
        lambda: layers.Bidirectional(layers.GRU(4, return_sequences=True)),
        _SEQUENCE,
    )
    for mode in ("sum", "mul", "ave"):
        yield Case(
            f"bidirectional_rnn_{mode}",
            lambda mode=mode: layers.Bidirectional(
                layers.SimpleRNN(4, return_sequences=True), merge_mode=mode
            ),
            _SEQUENCE,
        )


CASES = list(_cases())
