# SPDX-License-Identifier: Apache-2.0
"""FusedBatchNormV3 and FusedBatchNormGradV3, in training and in inference."""

from case import case, in_nchw
from tensors import sample, tensor

_SHAPES = ([2, 3, 3, 2], [1, 1, 1, 2], [3, 1, 2, 1], [2, 2, 2, 17], [1, 4, 5, 3], [1, 2, 2, 0])
_NCHW = [0, 3, 1, 2]


def _vectors(channels):
    """Returns scale, offset, mean and variance."""
    return (
        sample("float", [channels], seed=1),
        sample("float", [channels], seed=2),
        sample("float", [channels], seed=3),
        sample("float", [channels], seed=4, low=0.1, high=2),
    )


def _norm(images, channels, **attributes):
    return case("FusedBatchNormV3", images, *_vectors(channels), **attributes)


def _grad(shape, channels, **attributes):
    scale, _, mean, variance = _vectors(channels)
    return case(
        "FusedBatchNormGradV3",
        sample("float", shape, seed=5),
        sample("float", shape),
        scale,
        mean,
        variance,
        sample("float", [], seed=6),
        **attributes,
    )


def _training():
    for shape in _SHAPES:
        yield _norm(sample("float", shape), shape[-1])
        yield _norm(sample("float", shape), shape[-1], exponential_avg_factor=0.25, epsilon=0.001)
        yield _grad(shape, shape[-1], epsilon=0.001)
        channels_first = [shape[i] for i in _NCHW]
        yield _norm(sample("float", channels_first), shape[-1], data_format="NCHW")
        yield _grad(channels_first, shape[-1], data_format="NCHW")
    yield _norm(sample("float", [2, 1, 2, 3, 2]), 2, data_format="NDHWC")
    yield _norm(sample("float", [2, 3, 1, 2, 9]), 3, data_format="NCDHW")
    yield _grad([2, 3, 1, 2, 9], 3, data_format="NCDHW")
    # Cases without rows, without a moving average, and with special values.
    empty = sample("float", [0])
    for shape in ([2, 2, 2, 2], [0, 2, 2, 2]):
        yield case("FusedBatchNormV3", sample("float", shape), *_vectors(2)[:2], empty, empty)
    yield _norm(sample("float", [0, 2, 2, 2]), 2, exponential_avg_factor=0.5)
    yield _grad([0, 2, 2, 2], 2)
    special = tensor("float", [[[[1, float("nan")], [2, 3]]], [[[float("inf"), 0], [2, 3]]]])
    yield _norm(special, 2)


def _inference():
    for shape in _SHAPES:
        yield _norm(sample("float", shape), shape[-1], is_training=False)
        yield _grad(shape, shape[-1], is_training=False)
        # TensorFlow has no kernel for NCHW.
        in_nhwc = _grad(shape, shape[-1], is_training=False, epsilon=0.01)
        yield in_nchw(in_nhwc, images=(0, 1))
        channels_first = [shape[i] for i in _NCHW]
        images = sample("float", channels_first)
        yield _norm(images, shape[-1], is_training=False, data_format="NCHW")
    # Without rows, TensorFlow ignores the given statistics: outputs 1 and 2 are NaN.
    yield _grad([0, 2, 2, 2], 2, is_training=False)


def cases():
    """Yields ordinary shapes, then corner cases."""
    yield from _training()
    yield from _inference()
