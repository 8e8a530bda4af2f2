# SPDX-License-Identifier: Apache-2.0
"""Assert."""

from case import case
from tensors import sample, tensor


def cases():
    """Yields cases with true and with false conditions."""
    data = [sample("float", [2, 3]), sample("int32", [])]
    yield case("Assert", tensor("bool", True), data)
    yield case("Assert", tensor("bool", False), [sample("float", [0, 2])], fails=True)
    yield case("Assert", tensor("bool", False), data, fails=True)
    yield case("Assert", tensor("bool", False), data[:1], summarize=-1, fails=True)
    yield case("Assert", tensor("bool", [True, True]), data, fails=True)
