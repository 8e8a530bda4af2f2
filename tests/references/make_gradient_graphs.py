# SPDX-License-Identifier: Apache-2.0
"""Writes the graphs that tf.gradients builds for the cases of the gradient families.

Each file gradients/<family>.pb is one GraphDef. The nodes of case i, counted from 0, have the prefix
`c<i>/`: placeholders `in<k>` for the floating operands (the others are constants) and `dy<k>` for
the gradients of results, and identities `grad<k>` of the gradients that tf.gradients found. Where
TensorFlow allows it, placeholders have a known rank but unknown sizes, or an unknown rank if i is
odd, so the graphs compute shapes as they run.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import pathlib

import tensorflow as tf

from case import make_node, results_with_gradients
from families import FAMILIES

_FOLDER = pathlib.Path(__file__).resolve().parent / "gradients"
_FAMILIES = ("gradients", "array_gradients", "batch_norm_gradients")
tf1 = tf.compat.v1


class _Operands:
    """Makes graph inputs for operands: named placeholders for floats, constants otherwise."""

    def __init__(self, known):
        self._known = known
        self._count = 0

    def like(self, tensor, name):
        """Returns a placeholder for `tensor`, a tensor or an array."""
        shape = tf.TensorShape(tensor.shape)
        if self._known != "sizes":
            shape = [None] * shape.rank if self._known == "ranks" and shape.rank is not None else None
        return tf1.placeholder(tensor.dtype, shape, name=name)

    def bind(self, operand):
        """Returns the graph input, or the list of inputs, for the operand."""
        if isinstance(operand, list):
            return [self.bind(item) for item in operand]
        name = f"in{self._count}"
        self._count += 1
        if operand.dtype in ("float32", "float64"):
            return self.like(operand, name)
        return tf.constant(operand, name=name)


def _without_defaults(node, definition):
    for attr in definition.attr:
        if attr.HasField("default_value") and node.attr[attr.name] == attr.default_value:
            del node.attr[attr.name]


def _graph(one_case, known):
    with tf.Graph().as_default() as graph:
        operands = _Operands(known)
        node = make_node(one_case, [operands.bind(operand) for operand in one_case.operands])
        results = results_with_gradients(node)
        dy = [operands.like(result, f"dy{k}") for k, result in enumerate(results)]
        xs = [tensor for tensor in node.inputs if tensor.dtype.is_floating]
        names = []
        for k, grad in enumerate(tf.gradients(results, xs, dy)):
            if grad is not None:
                names.append(tf.identity(tf.convert_to_tensor(grad), name=f"grad{k}").op.name)
        graph_def = tf1.graph_util.extract_sub_graph(graph.as_graph_def(), names)
        if graph_def.library.function:
            raise ValueError("the gradient branches on unknown shapes")
        definitions = {op.type: op.op_def for op in graph.get_operations()}
        for node in graph_def.node:
            _without_defaults(node, definitions[node.op])
        return graph_def


def _add(index, graph_def, to):
    """Adds the nodes of a case under its prefix, with numbers as names where names are not fixed."""
    names = {}
    for number, node in enumerate(graph_def.node):
        fixed = node.name.startswith(("in", "dy", "grad")) and "/" not in node.name
        names[node.name] = f"c{index}/{node.name if fixed else number}"
    for node in graph_def.node:
        added = to.node.add()
        added.CopyFrom(node)
        added.name = names[node.name]
        for k, name in enumerate(node.input):
            control, name = ("^", name[1:]) if name.startswith("^") else ("", name)
            base, colon, output = name.partition(":")
            added.input[k] = f"{control}{names[base]}{colon}{output}"
        for attr in [name for name in added.attr if name.startswith("_")]:
            del added.attr[attr]


def _graph_of(one_case, index):
    """Builds the graph with minimal shape information; some gradients need ranks, or branch."""
    for known in ("ranks", "sizes") if index % 2 == 0 else ("nothing", "ranks", "sizes"):
        try:
            return _graph(one_case, known)
        except ValueError:
            pass
    raise AssertionError(f"no gradient of {one_case}")


def main():
    """Writes a file for each family."""
    _FOLDER.mkdir(exist_ok=True)
    for name in _FAMILIES:
        module = FAMILIES[name]
        together = tf1.GraphDef()
        index = 0
        for one_case in module.cases():
            if not module.case_text(one_case):
                continue
            _add(index, _graph_of(one_case, index), together)
            index += 1
        together.versions.producer = tf.version.GRAPH_DEF_VERSION
        data = together.SerializeToString(deterministic=True)
        (_FOLDER / f"{name}.pb").write_bytes(data)
        print(f"{name}: {index} cases, {len(together.node)} nodes, {len(data)} bytes")


if __name__ == "__main__":
    main()
