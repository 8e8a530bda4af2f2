# SPDX-License-Identifier: Apache-2.0
"""Cast between all pairs of element types, at values whose conversion is defined."""

from case import case
from literals import NUMPY_TYPES
from tensors import ALL, FLOATING, REDUCED, WIDE, tensor

_INF = float("inf")
_NAN = float("nan")

_FLOATS = [-7.9, -1.5, -0.5, 0, 0.1, 0.5, 1.5, 2.5, 100.25]
_INTEGERS = [-300, -7, -1, 0, 1, 3, 255, 256, 16777217]  # the last one is not representable as float
_VALUES = {
    "float": _FLOATS,
    "double": _FLOATS,
    "int32": _INTEGERS,
    "int64": [*_INTEGERS, 2**33 + 5, 2**53 + 1],  # not representable as int32, or as double
    "bool": [True, False, True],
    "uint8": [0, 1, 127, 128, 255],
}
# Ties, numbers that float or double cannot represent, and the largest numbers.
_UNSIGNED = {
    "uint32": [0, 1, 3, 255, 257, 2049, 65535, 16777217, 2**31, 2**32 - 1],
    "uint64": [0, 1, 3, 255, 257, 2049, 65535, 2**33 + 5, 2**53 + 1, 2**63, 2**64 - 1],
}


def _values(source, target):
    if source in FLOATING and target == "uint8":
        return [0, 0.1, 0.5, 1.5, 2.5, 100.25, 254.9]
    if source in FLOATING and target in (*FLOATING, "bool"):
        return [*_FLOATS, -0.0, _INF, -_INF, _NAN]
    return _VALUES[source]


def cases():
    """Yields a vector and an empty matrix for each pair of types, and one scalar."""
    for source in ALL:
        for target in ALL:
            numpy_type = NUMPY_TYPES[target]
            yield case("Cast", tensor(source, _values(source, target)), DstT=numpy_type)
            yield case("Cast", tensor(source, [[], []]), DstT=numpy_type)
    for source in WIDE:
        for target in (*ALL, *REDUCED, *WIDE):
            yield case("Cast", tensor(source, _UNSIGNED[source]), DstT=NUMPY_TYPES[target])
    for source in (*ALL, *REDUCED):
        for target in WIDE:
            values = tensor(source, [0, 0.1, 0.5, 1.5, 2.5, 100.25])
            yield case("Cast", values, DstT=NUMPY_TYPES[target])
    for source in FLOATING:
        yield case("Cast", tensor(source, [2.0**31, 2.0**32 - 256]), DstT=NUMPY_TYPES["uint32"])
        yield case("Cast", tensor(source, [2.0**63, 2.0**64 - 2.0**40]), DstT=NUMPY_TYPES["uint64"])
    for source in ("int32", "int64"):
        for target in WIDE:
            yield case("Cast", tensor(source, [-1, -(2**31), 7]), DstT=NUMPY_TYPES[target])
    yield case("Cast", tensor("int32", -3), DstT=NUMPY_TYPES["float"])
