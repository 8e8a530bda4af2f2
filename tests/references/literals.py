# SPDX-License-Identifier: Apache-2.0
"""The literal syntax of the reference files: tensors and attribute values as text."""

import ml_dtypes
import numpy as np
import tensorflow as tf

# Maps the name of each element type in the files to its NumPy type.
NUMPY_TYPES = {
    "float": np.float32,
    "double": np.float64,
    "int32": np.int32,
    "int64": np.int64,
    "bool": np.bool_,
    "uint8": np.uint8,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "half": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}
_NAMES = {np.dtype(type_): name for name, type_ in NUMPY_TYPES.items()}


def _scalar(value):
    """Returns the shortest text that reads back as the same element."""
    if isinstance(value, np.bool_):
        return str(value).lower()
    return str(value).removesuffix(".0")


def tensor_literal(array):
    """Returns text like `float<2,1>{0.5, nan}` or `int32<>{3}`, with bits for half and bfloat16."""
    dims = ",".join(str(dim) for dim in array.shape)
    name = _NAMES[array.dtype]
    if name in ("half", "bfloat16"):
        array = np.asarray(array).view(np.uint16)
    values = ", ".join(_scalar(value) for value in array.flat)
    return f"{name}<{dims}>{{{values}}}"


def _type_literal(data_type):
    return _NAMES[np.dtype(tf.as_dtype(data_type).as_numpy_dtype)]


def _shape_literal(shape):
    if shape.unknown_rank:
        return "<*>"
    return "<" + ",".join("?" if dim.size < 0 else str(dim.size) for dim in shape.dim) + ">"


def _list_literal(values):
    fields = values.ListFields()
    if not fields:
        return "[]"
    ((field, items),) = fields
    return "[" + ", ".join(map(_FORMATS[field.name], items)) + "]"


_FORMATS = {
    "i": str,
    "f": lambda value: str(np.float32(value)),
    "b": lambda value: str(value).lower(),
    "s": lambda value: f'"{value.decode()}"',
    "type": _type_literal,
    "shape": _shape_literal,
    "list": _list_literal,
}


def attribute_literal(attr_value):
    """Returns the text of an AttrValue, which also determines its kind."""
    kind = attr_value.WhichOneof("value")
    return _FORMATS[kind](getattr(attr_value, kind))
