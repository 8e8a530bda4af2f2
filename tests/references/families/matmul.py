# SPDX-License-Identifier: Apache-2.0
"""MatMul and BatchMatMulV2 with all transposes, empty operands and special values."""

from case import case
from tensors import FLOATING, SIGNED, sample, tensor

# Rows, contracted, columns.
_SIZES = ((2, 3, 4), (1, 1, 1), (1, 8, 1), (1, 5, 4), (5, 3, 1), (7, 9, 5))
_EMPTY_SIZES = ((0, 3, 2), (2, 0, 3), (2, 3, 0), (0, 0, 0))
_TRANSPOSES = [(a, b) for a in (False, True) for b in (False, True)]


def _product(dtype, sizes, transpose_a, transpose_b):
    rows, contracted, columns = sizes
    left = [contracted, rows] if transpose_a else [rows, contracted]
    right = [columns, contracted] if transpose_b else [contracted, columns]
    return case(
        "MatMul",
        sample(dtype, left),
        sample(dtype, right, seed=1),
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )


# The batch dimensions, which precede those of the matrices.
_BATCHES = (
    ([2], [2]),
    ([1], [3]),
    ([3], [1]),
    ([], [2]),
    ([2, 1], [1, 3]),
    ([2, 3], [3]),
    ([1, 1], [1, 1]),
    ([0], [0]),
    ([0], [1]),
    ([2, 0], [1, 1]),
)


def _batch_product(dtype, batches, sizes, adj_x, adj_y):
    rows, contracted, columns = sizes
    left = [contracted, rows] if adj_x else [rows, contracted]
    right = [columns, contracted] if adj_y else [contracted, columns]
    return case(
        "BatchMatMulV2",
        sample(dtype, [*batches[0], *left]),
        sample(dtype, [*batches[1], *right], seed=1),
        adj_x=adj_x,
        adj_y=adj_y,
    )


def _batch_products():
    for transposes in _TRANSPOSES:
        for batches in _BATCHES:
            yield _batch_product("float", batches, (2, 3, 4), *transposes)
        for sizes in ((1, 1, 1), *_EMPTY_SIZES):
            yield _batch_product("float", _BATCHES[0], sizes, *transposes)
        for dtype in ("double", *SIGNED):
            yield _batch_product(dtype, ([2, 1], [3]), (2, 3, 2), *transposes)
    yield case("BatchMatMulV2", sample("float", [2, 3]), sample("float", [3, 2]))
    for dtype in FLOATING:
        left = tensor(dtype, [[[1, float("nan")], [float("inf"), 2]]])
        yield case("BatchMatMulV2", left, sample(dtype, [2, 2, 2]))


def cases():
    """Yields all sizes and transposes for float, and some for the other types."""
    for transposes in _TRANSPOSES:
        for sizes in (*_SIZES, *_EMPTY_SIZES):
            yield _product("float", sizes, *transposes)
        for dtype in ("double", *SIGNED):
            for sizes in (_SIZES[0], _EMPTY_SIZES[1]):
                yield _product(dtype, sizes, *transposes)
    yield from _batch_products()
    for dtype in FLOATING:
        left = tensor(dtype, [[1, float("nan")], [float("inf"), 2], [3, 4]])
        yield case("MatMul", left, tensor(dtype, [[1, 2, -1], [1, -1, 2]]))
