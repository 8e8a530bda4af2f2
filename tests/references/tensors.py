# SPDX-License-Identifier: Apache-2.0
"""Operands for the cases: sets of element types, and arrays of given or random values."""

import numpy as np

from literals import NUMPY_TYPES

REDUCED = ("half", "bfloat16")
WIDE = ("uint32", "uint64")  # few ops support them
ALL = tuple(name for name in NUMPY_TYPES if name not in (*REDUCED, *WIDE))
FLOATING = ("float", "double")
SIGNED = ("int32", "int64")
INTEGER = (*SIGNED, "uint8")
NUMERIC = (*FLOATING, *INTEGER)
INDEX = ("int32", "int64")


def tensor(dtype, values):
    """Returns an array of the given values."""
    return np.array(values, NUMPY_TYPES[dtype])


def sample(dtype, shape, seed=0, low=None, high=None):
    """Returns random values with few digits; the same arguments always give the same array.

    Floats are in [-3, 3] and integers in [-9, 9] ([0, 9] if unsigned), unless `low` and `high` are
    given.
    """
    generator = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype in (*FLOATING, *REDUCED):
        values = generator.uniform(-3 if low is None else low, 3 if high is None else high, shape)
        return tensor(dtype, np.round(values, 2) + 0.0)  # + 0.0: no negative zeros
    smallest = 0 if dtype == "uint8" else -9
    values = generator.integers(
        smallest if low is None else low, 10 if high is None else high + 1, shape
    )
    return tensor(dtype, values)


def nonzero(dtype, shape, seed=0):
    """Returns the values of `sample`, with ones instead of zeros, for use as divisors."""
    values = sample(dtype, shape, seed)
    values[values == 0] = 1
    return values
