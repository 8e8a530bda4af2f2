# SPDX-License-Identifier: Apache-2.0
"""Random numbers from seeds, and from keys and counters."""

import numpy as np

from case import case
from literals import NUMPY_TYPES
from tensors import FLOATING, INDEX, REDUCED, WIDE, tensor

_SEEDS = ([0, 0], [1, 2], [-7, 2**31 - 1], [-(2**31), 12345])
_LARGE_SEEDS = ([2**40 + 3, -(2**62)], [-1, -1])
# A key and a counter. In the last two, a part of the counter wraps around as blocks are counted.
_STREAMS = (
    (0, [0, 0]),
    (2**63 + 12345, [3, 2**40]),
    (7, [2**32 - 3, 1, 99]),
    (7, [2**64 - 2, 2**32 - 1]),
)
_SHAPES = ([5, 3], [1], [], [0, 2], [67], [1, 2, 1, 3])

_FLOATS = ("StatelessRandomNormal", "StatelessRandomUniform", "StatelessTruncatedNormal")
# The smallest number, and the end of the range.
_LIMITS = {
    "int32": ((0, 10), (-5, 3), (-(2**31), 2**31 - 1), (7, 8)),
    "int64": ((0, 10), (-5, 3), (-(2**63), 2**63 - 1), (2**40, 2**40 + 2**35)),
}


def _shape(index, shape):
    return tensor(INDEX[index % 2], shape)


def _seed(index):
    """Returns the seeds of the case with this number, alternating between the two types."""
    seeds = (*_SEEDS, *_LARGE_SEEDS) if index % 2 else _SEEDS
    return tensor(INDEX[index % 2], seeds[index // 2 % len(seeds)])


def _stream(index):
    key, counter = _STREAMS[index % len(_STREAMS)]
    algorithm = 3 if index % 3 == 0 else 1
    return tensor("uint64", [key]), tensor("uint64", counter), tensor("int32", algorithm)


def _of_both(op, dtype, rows, *more):
    """Yields the op with seeds and the op with a key, in each shape."""
    says = {} if more else {"dtype": NUMPY_TYPES[dtype]}
    for index, shape in enumerate(rows):
        yield case(op, _shape(index // 2, shape), _seed(index), *more, **says)
        yield case(f"{op}V2", _shape(index, shape), *_stream(index), *more, **says)


def _floats():
    for op in _FLOATS:
        for dtype in (*FLOATING, *REDUCED):
            yield from _of_both(op, dtype, _SHAPES)
        yield from _of_both(op, "float", [[13]] * 12)  # all seeds and counters


def _integers():
    op = "StatelessRandomUniformInt"
    for dtype, all_limits in _LIMITS.items():
        for limits in all_limits:
            low, high = (tensor(dtype, limit) for limit in limits)
            yield from _of_both(op, dtype, _SHAPES if limits[0] == 0 else [[9]], low, high)
        same = tensor(dtype, 5)
        yield case(op, tensor("int32", [0]), tensor("int32", [1, 2]), same, same)
        yield case(op, tensor("int32", [1]), tensor("int32", [1, 2]), same, same, fails=True)
        yield case(f"{op}V2", tensor("int32", [1]), *_stream(0), same, same, fails=True)
    for dtype in (*_LIMITS, *WIDE):
        yield from _of_both("StatelessRandomUniformFullInt", dtype, _SHAPES)


def _streams():
    yield case("StatelessRandomGetAlg")
    for seeds in (*_SEEDS, *_LARGE_SEEDS):
        for dtype in INDEX if seeds in _SEEDS else INDEX[1:]:
            yield case("StatelessRandomGetKeyCounter", tensor(dtype, seeds))


def _wrong():
    shape, (key, counter, _) = tensor("int32", [2]), _stream(0)
    for other in (0, 2, 4):
        yield case("StatelessRandomUniformV2", shape, key, counter, tensor("int32", other),
                   dtype=np.float32, fails=True)


def cases():
    """Yields every op, type and shape, streams that wrap around, and cases that must fail."""
    for family in (_streams, _floats, _integers, _wrong):
        yield from family()
