# SPDX-License-Identifier: Apache-2.0
"""Updates of some rows of a variable."""

from case import Variable, case
from tensors import ALL, INDEX, NUMERIC, nonzero, sample, tensor

_OPS = ("Add", "Sub", "Mul", "Div", "Min", "Max", "Update")

# Shape of the variable, indices.
_ROWS = (
    ([4, 3], [2, 0]),
    ([5], [[4, 1], [1, 1]]),
    ([3, 2, 2], 1),
    ([3, 2], []),
    ([2, 0], [1, 0]),
    ([1, 1], [0]),
)


def _scatters(op, dtype, rows):
    for index, (shape, indices) in enumerate(rows):
        indices = tensor(INDEX[index % 2], indices)
        updates = nonzero(dtype, [*indices.shape, *shape[1:]], seed=1)
        yield case(f"ResourceScatter{op}", Variable(sample(dtype, shape)), indices, updates)


def cases():
    """Yields all rows for float, two for other types, scalar updates, and cases that must fail."""
    for op in _OPS:
        for dtype in ALL if op == "Update" else NUMERIC:
            yield from _scatters(op, dtype, _ROWS if dtype == "float" else _ROWS[:2])
        scalar, variable = tensor("float", 1.5), Variable(sample("float", [4, 2]))
        yield case(f"ResourceScatter{op}", variable, tensor("int32", [3, 1]), scalar)
        for index in (4, -1):
            yield case(f"ResourceScatter{op}", variable, tensor("int32", [1, index]), scalar,
                       fails=True)
