# SPDX-License-Identifier: Apache-2.0
"""Exports loops and branches written by TensorFlow, with their gradients by tf.gradients.

Writes each graph to loops/NAME.pb, and some also without gradients to loops/NAME_forward.pb. `y` is
the result of the graph; `dx0` and `dx1` are the gradients of its sum with respect to the operands
`x0` and `x1`. loops/NAME.txt has the feeds and the values of the result and the gradients.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # TensorFlow's own kernels vary less between machines

import pathlib

import numpy as np
import tensorflow as tf

from literals import tensor_literal

_FOLDER = pathlib.Path(__file__).resolve().parent / "loops"
_ROWS, _UNITS, _TIMES = 6, 3, 5
tf1 = tf.compat.v1


def _cell(x, h, w):
    return tf.tanh(tf.matmul(h, w) + x)


def _counted(x, w, **options):
    _, h = tf.while_loop(lambda i, h: i < _TIMES, lambda i, h: (i + 1, _cell(x, h, w)),
                         (tf.constant(0), x * 0.5), **options)
    return h


def _bounded(x, w):
    """Stops before the maximum number of iterations, depending on the data."""
    _, h = tf.while_loop(lambda i, h: tf.reduce_sum(h * h) < 4.0,
                         lambda i, h: (i + 1, h * 1.3 + 0.1 * tf.matmul(x, w)),
                         (tf.constant(0), x * 0.1), maximum_iterations=20)
    return h


def _branching(x, w):
    def body(i, h):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: _cell(x, h, w), lambda: h * h - x)

    _, h = tf.while_loop(lambda i, h: i < _TIMES, body, (tf.constant(0), x),
                         maximum_iterations=_TIMES)
    return h


def _scan(x, w):
    """Reads one TensorArray and writes another, step by step along the time dimension."""
    times = tf.stack([x * (0.5 + t) for t in range(_TIMES)])
    read = tf.TensorArray(tf.float32, _TIMES).unstack(times)
    written = tf.TensorArray(tf.float32, _TIMES, element_shape=[None, _UNITS])

    def body(t, h, written):
        h = _cell(read.read(t), h, w)
        return t + 1, h, written.write(t, h * h)

    _, h, written = tf.while_loop(lambda t, *_: t < _TIMES, body, (tf.constant(0), x, written))
    return h + tf.reduce_sum(written.stack()[1:], 0)


def _backward_scan(x, w):
    """Reads the elements that it wrote, in reverse order and twice, without maximum_iterations."""
    array = tf.TensorArray(tf.float32, _TIMES, clear_after_read=False).unstack(
        tf.stack([x, x * x, x + 1.0, x - 1.0, -x]))

    def body(t, array):
        h = array.read(t - 1) * array.read(t)
        return t - 1, array.write(t - 1, _cell(h, h, w))

    def ahead(t, count, array):
        t, array = body(t, array)
        return t, count + 1, array

    _, _, array = tf.while_loop(lambda t, count, array: count < _TIMES - 1, ahead,
                                (tf.constant(_TIMES - 1), tf.constant(0), array))
    return array.stack()[0] + array.read(2)


def _nested(x, w):
    def inner(h):
        return tf.while_loop(lambda j, h: j < 2, lambda j, h: (j + 1, _cell(x, h, w)),
                             (tf.constant(0), h), maximum_iterations=2)[1]

    _, h = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, inner(h) * 1.1),
                         (tf.constant(0), x), maximum_iterations=3)
    return h


def _conditional(x, w, negated):
    """Nests a branch in a branch; the gradient keeps the values of both as optionals."""
    def inner(h):
        return tf.cond(tf.reduce_sum(h * h) > 1.0, lambda: tf.tanh(h) * tf.exp(h),
                       lambda: tf.sin(h))

    positive = tf.reduce_sum(x) > -100.0
    return tf.cond(tf.logical_not(positive) if negated else positive,
                   lambda: inner(tf.matmul(x, w)), lambda: tf.matmul(tf.sin(x), w) * x)


def _loop_in_branch(x, w):
    """Runs loops in a branch; the gradient keeps their lists as optionals."""
    return tf.cond(tf.reduce_sum(x * x) > 0.0, lambda: _bounded(x, w) + _counted(x, w),
                   lambda: tf.matmul(x, w))


def _deep(x, w):
    """Runs a branch in three nested loops, each bounded by the counter of the enclosing loop."""
    def cell(k, h):
        return tf.cond(tf.equal(k % 2, 0), lambda: _cell(x, h, w), lambda: h * h - x)

    def inner(j, h):
        return tf.while_loop(lambda k, h: k <= j, lambda k, h: (k + 1, cell(k, h)),
                             (tf.constant(0), h), maximum_iterations=3)[1]

    def middle(i, h):
        return tf.while_loop(lambda j, h: j <= i, lambda j, h: (j + 1, inner(j, h)),
                             (tf.constant(0), h), maximum_iterations=2)[1]

    _, h = tf.while_loop(lambda i, h: i < 2, lambda i, h: (i + 1, middle(i, h) * 1.1),
                         (tf.constant(0), x), maximum_iterations=2)
    return h


# For these, TensorFlow's gradient adds lists of lists or optionals to the loop itself, which then has
# no further gradient. Therefore the graph without gradients is also stored.
_NESTED = ("branching", "first_branch", "second_branch", "nested", "loop_in_branch", "deep")

# Maps each name to a function that builds the graph's result.
_LOOPS = {
    "counted": lambda x, w: _counted(x, w),
    "counted_with_maximum": lambda x, w: _counted(x, w, maximum_iterations=_TIMES + 2),
    "bounded": _bounded,
    "branching": _branching,
    "first_branch": lambda x, w: _conditional(x, w, negated=False),
    "second_branch": lambda x, w: _conditional(x, w, negated=True),
    "scan": _scan,
    "backward_scan": _backward_scan,
    "nested": _nested,
    "loop_in_branch": _loop_in_branch,
    "deep": _deep,
}


def _write_graph(name, graph_def):
    for node in graph_def.node:
        node.ClearField("device")
    (_FOLDER / f"{name}.pb").write_bytes(graph_def.SerializeToString(deterministic=True))


def _write(name, loop):
    generator = np.random.default_rng(21)
    values = [generator.normal(0, 0.5, shape).round(3).astype(np.float32)
              for shape in ([_ROWS, _UNITS], [_UNITS, _UNITS])]
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, _UNITS], name="x0")
        w = tf1.placeholder(tf.float32, [_UNITS, _UNITS], name="x1")
        y = tf.identity(loop(x, w), name="y")
        forward = graph.as_graph_def() if name in _NESTED else None
        gradients = [tf.identity(g, name=f"dx{i}") for i, g in enumerate(tf.gradients(y, [x, w]))]
        graph_def = graph.as_graph_def()
        with tf1.Session() as session:
            results = session.run([y, *gradients], {x: values[0], w: values[1]})
    lines = [f"# {name}.pb, by make_loop_graphs.py with TensorFlow {tf.__version__}."]
    lines += [f"feed x{i} {tensor_literal(value)}" for i, value in enumerate(values)]
    lines += [f"value {key} {tensor_literal(value)}"
              for key, value in zip(["y", "dx0", "dx1"], results)]
    _write_graph(name, graph_def)
    if forward is not None:
        _write_graph(f"{name}_forward", forward)
    (_FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{name}: {len(graph_def.node)} nodes")


def main():
    """Writes all graphs."""
    tf1.enable_control_flow_v2()
    tf1.enable_tensor_equality()
    _FOLDER.mkdir(exist_ok=True)
    for name, loop in _LOOPS.items():
        _write(name, loop)


if __name__ == "__main__":
    main()
