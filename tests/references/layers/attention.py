# SPDX-License-Identifier: Apache-2.0
"""Attention with learnt projections."""

import keras
from keras import layers

from layers._case import Case

_SELF = ((7, 5, 6),)
_CROSS = ((7, 4, 6), (7, 5, 3))
_THREE = ((7, 4, 6), (7, 5, 3), (7, 5, 2))
_MASKED = ((7, 5, 6), ((7, 5, 5), 4))

_on_itself = lambda layer, x: layer(x, x)
_causal = lambda layer, x: layer(x, x, use_causal_mask=True)
# If asked for scores, Keras uses its own products, which allow values and keys to differ in width.
_with_key = lambda layer, *x: layer(*x, return_attention_scores=True)[0]
_masked = lambda layer, x, mask: layer(x, x, attention_mask=mask > 0)
_masked_and_causal = lambda layer, x, mask: layer(
    x, x, attention_mask=mask > 0, use_causal_mask=True
)


def _dropped(layer, x, factors):
    """Multiplies the attention weights by fixed factors instead of those that dropout draws."""
    if layer.built:
        layer._dropout_layer = lambda weights, training: weights * factors
    return layer(x, x, training=True)


class _SelfAttention(layers.Layer):
    """Keras' attention between Keras' dense layers, with the names that Mirrorflow uses."""

    def __init__(self, heads, causal=False):
        super().__init__(name="self_attention")
        self.heads, self.causal = heads, causal

    def build(self, shape, *_):
        self.maps = {}
        for name in ("query", "key", "value", "output"):
            self.maps[name] = layers.Dense(shape[-1], name=name)
            self.maps[name].build(shape)

    def call(self, x, mask=None):
        batch, n, width = x.shape
        depth = width // self.heads
        split = lambda name: keras.ops.reshape(self.maps[name](x), (batch, n, self.heads, depth))
        y = keras.ops.dot_product_attention(
            split("query"),
            split("key"),
            split("value"),
            mask=None if mask is None else mask > 0,
            is_causal=self.causal,
        )
        return self.maps["output"](keras.ops.reshape(y, (batch, n, width)))


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
    Case(
        "multi_head_cross_causal",
        lambda: layers.MultiHeadAttention(2, 3),
        _CROSS,
        lambda layer, *x: layer(*x, use_causal_mask=True),
    ),
    Case(
        "multi_head_masked_keys",
        lambda: layers.MultiHeadAttention(2, 3),
        ((7, 5, 6), ((7, 1, 5), 9)),
        _masked,
    ),
    Case(
        "multi_head_masked_heads",
        lambda: layers.MultiHeadAttention(2, 3),
        ((7, 5, 6), ((7, 2, 5, 5), 9)),
        _masked,
    ),
    Case(
        "multi_head_dropout",
        lambda: layers.MultiHeadAttention(2, 3, dropout=0.5),
        ((7, 5, 6), (7, 2, 5, 5)),
        _dropped,
    ),
    Case("self_attention", lambda: _SelfAttention(2), _SELF),
    Case("self_attention_causal", lambda: _SelfAttention(3, causal=True), _SELF),
    Case(
        "self_attention_masked",
        lambda: _SelfAttention(2),
        ((7, 5, 6), ((7, 1, 5, 5), 9)),
    ),
    Case(
        "self_attention_masked_causal",
        lambda: _SelfAttention(2, causal=True),
        ((7, 5, 6), ((7, 1, 1, 5), 4)),  # no first key is masked
    ),
    Case("grouped_query", lambda: layers.GroupQueryAttention(3, 4, 2), _SELF, _on_itself),
    Case("grouped_query_causal", lambda: layers.GroupQueryAttention(3, 4, 1), _SELF, _causal),
    Case(
        "grouped_query_cross", lambda: layers.GroupQueryAttention(3, 4, 2, use_bias=False), _CROSS
    ),
    Case("grouped_query_masked", lambda: layers.GroupQueryAttention(3, 4, 2), _MASKED, _masked),
    Case(
        "grouped_query_masked_causal",
        lambda: layers.GroupQueryAttention(3, 4, 2),
        ((7, 5, 6), ((7, 5, 5), 9)),
        _masked_and_causal,
    ),
    Case("grouped_query_three_inputs", lambda: layers.GroupQueryAttention(3, 4, 2), _THREE),
    Case(
        "grouped_query_dropout",
        lambda: layers.GroupQueryAttention(3, 4, 2, dropout=0.5),
        ((7, 5, 6), (7, 4, 5, 5)),
        _dropped,
    ),
]
