# SPDX-License-Identifier: Apache-2.0
"""Pooling over windows and over all positions."""

from keras import layers, ops

from layers._case import Case

_INPUTS = {1: ((7, 8, 2),), 2: ((7, 5, 6, 2),), 3: ((7, 4, 5, 3, 2),)}
_OBLONG = {1: 3, 2: (3, 2), 3: (2, 3, 1)}

_in_double = lambda layer, x: ops.cast(layer(x), "float64")


def _cases():
    for kind in ("Max", "Average"):
        for rank, inputs in _INPUTS.items():
            name = f"{kind.lower()}_pooling{rank}d"
            window = getattr(layers, f"{kind}Pooling{rank}D")
            everything = getattr(layers, f"Global{kind}Pooling{rank}D")
            # TensorFlow's pooling of volumes has no double precision.
            options = {"dtype": "float32"} if rank == 3 else {}
            call = _in_double if rank == 3 else None
            yield Case(
                name,
                lambda window=window, options=options: window(2, **options),
                inputs,
                call,
            )
            yield Case(
                f"{name}_same",
                lambda window=window, rank=rank, options=options: window(
                    _OBLONG[rank], strides=2, padding="same", **options
                ),
                inputs,
                call,
            )
            yield Case(f"global_{name}", everything, inputs)
    yield Case(
        "global_average_pooling2d_kept",
        lambda: layers.GlobalAveragePooling2D(keepdims=True),
        _INPUTS[2],
    )


CASES = list(_cases())
