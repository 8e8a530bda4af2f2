# SPDX-License-Identifier: Apache-2.0
"""Exports a training graph with TensorFlow's v1 gradients, and what TensorFlow makes of it.

The graph is an MLP 20-16-8-5 trained by momentum. It goes to mlp_training.pb; a batch, the losses
of five steps on it and the variables after steps 1 and 5 go to mlp_training.txt. The numbers come
from the exported bytes, so they are those of the file.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # TensorFlow's own kernels: the same on more machines

import collections
import pathlib

import numpy as np
import tensorflow as tf

from case import SESSION_CONFIG
from literals import tensor_literal

_FOLDER = pathlib.Path(__file__).resolve().parent
_LAYERS = {"dense": (20, 16), "dense_1": (16, 8), "dense_2": (8, 5)}
_LEARNING_RATE = 0.1
_MOMENTUM = 0.9
_ROWS = 24
_STEPS = 5
_SAVED_STEPS = (1, _STEPS)


def _variable(name, value):
    return tf.compat.v1.get_variable(
        name, initializer=value.astype(np.float32), use_resource=True
    )


def _dense(generator, name, inputs):
    """The layer and its variables."""
    shape = _LAYERS[name]
    kernel = _variable(f"{name}/kernel", generator.normal(0, shape[0] ** -0.5, shape).round(4))
    bias = _variable(f"{name}/bias", generator.normal(0, 0.1, shape[1:]).round(4))
    product = tf.matmul(inputs, kernel, name=f"{name}/MatMul")
    return tf.nn.bias_add(product, bias, name=f"{name}/BiasAdd"), [kernel, bias]


def _model(generator):
    """The loss and the variables of the network."""
    images = tf.compat.v1.placeholder(tf.float32, [None, 20], name="images")
    labels = tf.compat.v1.placeholder(tf.int32, [None], name="labels")
    hidden, variables = images, []
    for name in _LAYERS:
        if variables:
            hidden = tf.nn.relu(hidden)
        hidden, of_layer = _dense(generator, name, hidden)
        variables += of_layer
    entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden)
    return tf.reduce_mean(entropies, name="loss"), variables


def _train(loss, variables):
    """The momentum updates, their slots in `variables` too."""
    gradients = tf.gradients(loss, variables)
    updates, slots = [], []
    for variable, gradient in zip(variables, gradients):
        slot = _variable(f"{variable.op.name}/momentum", np.zeros(variable.shape))
        update = tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=slot.handle,
            lr=tf.constant(_LEARNING_RATE),
            grad=gradient,
            momentum=tf.constant(_MOMENTUM),
        )
        slots.append(slot)
        updates.append(update)
    tf.group(*updates, name="train")
    return slots


def _export(generator):
    """The GraphDef; each VarHandleOp says in `_initializer` which node makes its first value."""
    with tf.Graph().as_default() as graph:
        loss, variables = _model(generator)
        variables += _train(loss, variables)
        initializers = {v.handle.op.name: v.initial_value.op.name for v in variables}
        graph_def = tf.compat.v1.graph_util.extract_sub_graph(
            graph.as_graph_def(), ["loss", "train", *initializers.values()]
        )
    for node in graph_def.node:
        if node.op == "VarHandleOp":
            node.attr["_initializer"].s = initializers[node.name].encode()
    return graph_def


def _read_and_assign_ops(graph):
    """By variable name a read; and the assignments that give all variables their first value."""
    reads, assignments = {}, []
    for node in graph.get_operations():
        if node.type != "VarHandleOp":
            continue
        (handle,) = node.outputs
        initializer = node.get_attr("_initializer").decode()
        initial_value = graph.get_tensor_by_name(f"{initializer}:0")
        reads[node.name] = tf.raw_ops.ReadVariableOp(
            resource=handle, dtype=node.get_attr("dtype")
        )
        assignments.append(tf.raw_ops.AssignVariableOp(resource=handle, value=initial_value))
    return reads, assignments


def _run(graph_bytes, batch):
    """Trains the exported graph; yields the lines of losses and variables."""
    graph_def = tf.compat.v1.GraphDef.FromString(graph_bytes)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        reads, assignments = _read_and_assign_ops(graph)
        feeds = {f"{name}:0": value for name, value in batch.items()}
        with tf.compat.v1.Session(config=SESSION_CONFIG) as session:
            session.run(assignments)
            for step in range(1, _STEPS + 1):
                loss, _ = session.run(["loss:0", "train"], feeds)
                yield f"loss {step} {tensor_literal(loss)}"
                if step in _SAVED_STEPS:
                    for name, value in session.run(reads).items():
                        yield f"variable {name} step {step} {tensor_literal(value)}"


def main():
    """Writes both files and prints which ops the graph contains."""
    generator = np.random.default_rng(20)
    graph_def = _export(generator)
    graph_bytes = graph_def.SerializeToString(deterministic=True)
    batch = {
        "images": generator.normal(0, 1, [_ROWS, 20]).round(3).astype(np.float32),
        "labels": generator.integers(0, 5, [_ROWS]).astype(np.int32),
    }
    lines = [
        "# Training of mlp_training.pb; every step is fed the same batch.",
        "# A step's loss is of before its update, its variables are of after it.",
        f"# Made by make_mlp_training.py with TensorFlow {tf.__version__}, NumPy {np.__version__}.",
        "fetch loss",
        "target train",
        *(f"feed {name} {tensor_literal(value)}" for name, value in batch.items()),
        *_run(graph_bytes, batch),
    ]
    (_FOLDER / "mlp_training.pb").write_bytes(graph_bytes)
    (_FOLDER / "mlp_training.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(*sorted(collections.Counter(node.op for node in graph_def.node).items()))


if __name__ == "__main__":
    main()
