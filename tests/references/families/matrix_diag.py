# SPDX-License-Identifier: Apache-2.0
"""Diagonals of matrices: read, set and expanded to matrices; MatrixBandPart."""

from case import case
from tensors import ALL, INDEX, sample, tensor

_ALIGNS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")

# Matrices, which diagonals, alignment.
_PARTS = (
    ([2, 3, 4], [0]),
    ([3, 4], [-1, 2]),
    ([2, 4, 3], [-2, 0]),
    ([3, 3], 1),
    ([3, 3], [-2]),
    ([4, 5], [-3, 4]),
    ([1, 1], [0, 0]),
    ([2, 0, 3], [0]),
    ([0, 2, 3], [-1, 1]),
)

# Diagonals, which ones, rows, columns.
_DIAGONALS = (
    ([2, 3], [0], -1, -1),
    ([3, 2], [-1, 1], -1, -1),
    ([2, 3], 1, -1, -1),
    ([2, 2], -1, 4, 2),
    ([2, 4, 3], [-2, 1], 3, -1),
    ([2, 2], [0, 1], -1, 5),
    ([1], 0, 1, 1),
    ([0], 0, -1, -1),
)

# Shape, diagonals below, and above.
_BANDS = (
    ([2, 3, 4], 1, 0),
    ([4, 3], -1, 1),
    ([3, 3], 0, -1),
    ([3, 5], -1, -1),
    ([3, 3], 0, 0),
    ([2, 2], 2, 1),
    ([1, 1], 0, 0),
    ([2, 0, 3], 0, 0),
)


def _parts(dtype, rows, align):
    for shape, k in _PARTS[rows]:
        k, matrix, padding = tensor("int32", k), sample(dtype, shape), sample(dtype, [], seed=5)
        yield case("MatrixDiagPartV3", matrix, k, padding, align=align)
        if 0 in shape and align != "RIGHT_LEFT":
            continue
        lower, upper = k.flat[0], k.flat[-1]
        longest = min(shape[-2] + min(upper, 0), shape[-1] - max(lower, 0))
        dims = [*shape[:-2], *([upper - lower + 1] if lower < upper else []), longest]
        yield case("MatrixSetDiagV3", matrix, sample(dtype, dims, seed=3), k, align=align)


def _of_type(dtype):
    rows = slice(None) if dtype == "float" else slice(2)
    for align in _ALIGNS if dtype == "float" else _ALIGNS[:1]:
        yield from _parts(dtype, rows, align)
        for shape, k, height, width in _DIAGONALS[rows]:
            sizes = tensor("int32", height), tensor("int32", width)
            diagonal, padding = sample(dtype, shape), sample(dtype, [], seed=5)
            yield case("MatrixDiagV3", diagonal, tensor("int32", k), *sizes, padding, align=align)
    for shape in ([2, 3], [4], [1], [0, 2], [2, 0]):
        yield case("MatrixDiag", sample(dtype, shape))
    for shape in ([2, 3, 3], [2, 4], [4, 2], [1, 1], [0, 2, 2]):
        yield case("MatrixDiagPart", sample(dtype, shape))
        diagonal = sample(dtype, [*shape[:-2], min(shape[-2:])], seed=3)
        yield case("MatrixSetDiag", sample(dtype, shape), diagonal)
    for index, (shape, lower, upper) in enumerate(_BANDS[rows]):
        numbers = [tensor(INDEX[index % 2], number) for number in (lower, upper)]
        yield case("MatrixBandPart", sample(dtype, shape), *numbers)


def cases():
    """Yields all rows for float, the first two rows for other types, and cases that must fail."""
    for dtype in ALL:
        yield from _of_type(dtype)
    zero, matrix = tensor("float", 0), sample("float", [2, 3])
    any_size = tensor("int32", -1)
    yield case("MatrixDiagPartV3", matrix, tensor("int32", [1, 0]), zero, fails=True)
    yield case("MatrixDiagPartV3", matrix, tensor("int32", 3), zero, fails=True)
    yield case("MatrixDiagV3", matrix, tensor("int32", 0), tensor("int32", 2), any_size, zero,
               fails=True)
    yield case("MatrixDiagV3", matrix, tensor("int32", [0, 2]), any_size, any_size, zero, fails=True)
    special = tensor("float", [[float("nan"), 1], [float("inf"), 0]])
    yield case("MatrixBandPart", special, tensor("int32", 0), tensor("int32", 0))
