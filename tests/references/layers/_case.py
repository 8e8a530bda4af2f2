# SPDX-License-Identifier: Apache-2.0
"""A case of a layer."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass
class Case:
    """A layer on inputs of these shapes. ((7, 3), 5) has shape (7, 3) and integers below 5."""

    name: str
    make: Callable  # returns the layer
    inputs: tuple
    call: Callable | None = None  # call(layer, *inputs) instead of layer(*inputs)
    compiled: bool = False  # with XLA, which has gradients that TensorFlow's kernels lack
