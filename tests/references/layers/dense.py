# SPDX-License-Identifier: Apache-2.0
"""Dense and Embedding."""

from keras import layers

from layers._case import Case

CASES = [
    Case("dense", lambda: layers.Dense(4), ((7, 3),)),
    Case("dense_without_bias", lambda: layers.Dense(4, "tanh", use_bias=False), ((7, 3),)),
    Case("dense_on_sequence", lambda: layers.Dense(4, "relu"), ((7, 5, 3),)),
    Case("embedding", lambda: layers.Embedding(9, 4), (((7, 5), 9),)),
]
