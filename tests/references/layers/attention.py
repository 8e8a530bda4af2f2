# SPDX-License-Identifier: Apache-2.0
"""Attention with learnt projections."""

from keras import layers

from layers._case import Case

_SELF = ((7, 5, 6),)
_CROSS = ((7, 4, 6), (7, 5, 3))
_THREE = ((7, 4, 6), (7, 5, 3), (7, 5, 2))
_MASKED = ((7, 5, 6), ((7, 5, 5), 4))

_on_itself = lambda layer, x: layer(x, x)
_causal = lambda layer, x: layer(x, x, use_causal_mask=True)
# Scores make Keras use products of its own, which allow values of another width than keys.
_with_key = lambda layer, *x: layer(*x, return_attention_scores=True)[0]
_masked = lambda layer, x, mask: layer(x, x, attention_mask=mask > 0)
_masked_and_causal = lambda layer, x, mask: layer(
    x, x, attention_mask=mask > 0, use_causal_mask=True
)

CASES = [
    Case("multi_head", lambda: layers.MultiHeadAttention(2, 3), _SELF, _on_itself),
    Case("multi_head_causal", lambda: layers.MultiHeadAttention(2, 3), _SELF, _causal),
    Case("multi_head_cross", lambda: layers.MultiHeadAttention(2, 3), _CROSS),
    Case(
        "multi_head_three_inputs",
        lambda: layers.MultiHeadAttention(2, 3, value_dim=4, output_shape=5, use_bias=False),
        _THREE,
        _with_key,
    ),
    Case("multi_head_masked", lambda: layers.MultiHeadAttention(2, 3), _MASKED, _masked),
    Case(
        "multi_head_masked_causal",
        lambda: layers.MultiHeadAttention(2, 3),
        ((7, 5, 6), ((7, 5, 5), 9)),
        _masked_and_causal,
    ),
    Case("grouped_query", lambda: layers.GroupQueryAttention(3, 4, 2), _SELF, _on_itself),
    Case("grouped_query_causal", lambda: layers.GroupQueryAttention(3, 4, 1), _SELF, _causal),
    Case(
        "grouped_query_cross", lambda: layers.GroupQueryAttention(3, 4, 2, use_bias=False), _CROSS
    ),
]
