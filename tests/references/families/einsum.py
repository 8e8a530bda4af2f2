# SPDX-License-Identifier: Apache-2.0
"""Einsum: products, sums, diagonals and broadcasting of one operand and of two."""

from case import case
from tensors import FLOATING, REDUCED, SIGNED, sample, tensor

_NAN = float("nan")
_INF = float("inf")

_EQUATIONS = (
    ("ij->ji", [2, 3]),
    ("ij->i", [2, 3]),
    ("ijk->", [2, 3, 4]),
    ("ii->i", [3, 3]),
    ("ii->", [3, 3]),
    ("i->ii", [3]),
    ("iij->ji", [2, 2, 3]),
    ("...i->i...", [2, 3, 4]),
    ("...i->...", [2, 3, 4]),
    ("ij,jk->ik", [2, 3], [3, 4]),
    ("ji,kj->ki", [3, 2], [4, 3]),
    ("bij,bjk->bik", [2, 3, 4], [2, 4, 5]),
    ("bqhd,bkhd->bhqk", [2, 3, 2, 4], [2, 5, 2, 4]),
    ("bhqk,bkhd->bqhd", [2, 2, 3, 5], [2, 5, 2, 4]),
    ("abc,cde->abde", [2, 3, 4], [4, 2, 3]),
    ("abcd,cde->abe", [2, 3, 2, 4], [2, 4, 3]),
    ("ij,ij->ij", [2, 3], [2, 3]),
    ("ij,ij->", [2, 3], [2, 3]),
    ("i,j->ij", [2], [3]),
    ("i,->i", [3], []),
    (",->", [], []),
    ("ij,jk->k", [2, 3], [3, 4]),
    ("ijl,jk->ik", [2, 3, 2], [3, 4]),
    ("iij,jk->ik", [2, 2, 3], [3, 4]),
    ("ij,jk->iik", [2, 3], [3, 4]),
    ("...ij,...jk->...ik", [2, 3, 4], [2, 4, 2]),
    ("...ij,...jk->...ik", [2, 1, 3, 4], [5, 4, 2]),
    ("...ij,jk->...ik", [2, 3, 4], [4, 2]),
    ("ij...,jk...->ik...", [2, 3, 2], [3, 4, 1]),
    ("ij,jk->ik", [1, 3], [3, 1]),
    ("ij,jk->ik", [1, 1], [1, 1]),
    ("bij,bjk->bik", [1, 3, 4], [1, 4, 1]),
)
_EMPTY = (
    ("ij,jk->ik", [0, 3], [3, 4]),
    ("ij,jk->ik", [2, 0], [0, 4]),
    ("bij,bjk->bik", [0, 2, 3], [0, 3, 2]),
    ("ij->i", [2, 0]),
)

def _einsum(dtype, equation, *shapes):
    operands = [sample(dtype, shape, seed) for seed, shape in enumerate(shapes)]
    return case("Einsum", operands, equation=equation)


def cases():
    """Yields every equation for float, some equations for other types, and non-finite values."""
    for row in (*_EQUATIONS, *_EMPTY):
        yield _einsum("float", *row)
    for dtype in (*FLOATING[1:], *SIGNED):
        for row in (*_EQUATIONS[10:13], _EQUATIONS[3], *_EMPTY[:1]):
            yield _einsum(dtype, *row)
    for dtype in REDUCED:
        yield _einsum(dtype, *_EQUATIONS[11])
    special = tensor("float", [[_NAN, 1], [_INF, 2], [-_INF, 0]])
    yield case("Einsum", [special, tensor("float", [[1, 0], [2, 1]])], equation="ij,jk->ik")
    yield case("Einsum", [special], equation="ij->i")
