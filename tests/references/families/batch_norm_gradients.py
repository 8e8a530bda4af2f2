# SPDX-License-Identifier: Apache-2.0
"""Gradients of FusedBatchNormV3 by tf.gradients, in float: TensorFlow has no other statistics."""

import numpy as np

from case import gradient_text as case_text  # how make_cases.py writes this family
from families import batch_norm

_MOST_ELEMENTS = 64


def _has_gradient(one_case):
    images = one_case.operands[0]
    return (
        one_case.op == "FusedBatchNormV3"
        and one_case.attributes.get("data_format", "NHWC") in ("NHWC", "NCHW")
        and 0 < images.size <= _MOST_ELEMENTS
        and np.isfinite(images).all()
    )


def cases():
    """Yields training and inference, with and without a moving average, in both layouts."""
    yield from filter(_has_gradient, batch_norm.cases())


__all__ = ["case_text", "cases"]
