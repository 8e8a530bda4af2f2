# SPDX-License-Identifier: Apache-2.0
"""One case: an op with its operands and attributes, run by TensorFlow and written as text."""

import dataclasses
import inspect

import numpy as np
import tensorflow as tf

from literals import attribute_literal, tensor_literal
from tensors import sample


@dataclasses.dataclass(frozen=True)
class Variable:
    """An operand that is a resource variable with this initial value."""

    value: np.ndarray


@dataclasses.dataclass(frozen=True)
class Case:
    """A call to `tf.raw_ops.<op>`. `fails` means that TensorFlow must reject it."""

    op: str
    operands: tuple
    attributes: dict
    fails: bool = False
    channels_first: "ChannelsFirst | None" = None


@dataclasses.dataclass(frozen=True)
class ChannelsFirst:
    """The inputs and outputs that are images, and the inputs that are image sizes."""

    images: tuple
    sizes: tuple
    outputs: tuple


def case(op, *operands, fails=False, **attributes):
    """Returns a Case. The operands (arrays, Variables, lists of arrays) are in the op's order."""
    return Case(op, operands, attributes, fails)


def in_nchw(one_case, images=(0,), sizes=(), outputs=(0,)):
    """Returns the case with channels first. It is computed in NHWC: most CPU kernels lack NCHW."""
    return dataclasses.replace(one_case, channels_first=ChannelsFirst(images, sizes, outputs))


@dataclasses.dataclass(frozen=True)
class Result:
    """The node that ran, its inputs as (kind, value), its outputs, and the variables after it."""

    node: tf.Operation
    inputs: list
    outputs: list
    after: list


# With one thread and no graph rewriting, the op's own kernel runs, always in the same order.
SESSION_CONFIG = tf.compat.v1.ConfigProto(
    intra_op_parallelism_threads=1,
    inter_op_parallelism_threads=1,
    graph_options=tf.compat.v1.GraphOptions(
        optimizer_options=tf.compat.v1.OptimizerOptions(
            opt_level=tf.compat.v1.OptimizerOptions.L0
        ),
        rewrite_options={"disable_meta_optimizer": True},
    ),
)


class _Operands:
    """Makes graph inputs for operands and stores what to feed to them."""

    def __init__(self):
        self.feeds = {}
        self.handles = {}
        self.initializers = []

    def bind(self, operand):
        """Returns the graph input, or the list of inputs, for the operand."""
        if isinstance(operand, list):
            return [self.bind(item) for item in operand]
        if isinstance(operand, Variable):
            return self._bind_variable(operand.value)
        placeholder = tf.compat.v1.placeholder(operand.dtype, operand.shape)
        self.feeds[placeholder] = operand
        return placeholder

    def _bind_variable(self, value):
        handle = tf.raw_ops.VarHandleOp(
            dtype=value.dtype, shape=value.shape, shared_name=f"variable_{len(self.handles)}"
        )
        initial_value = self.bind(value)
        self.initializers.append(
            tf.raw_ops.AssignVariableOp(resource=handle, value=initial_value)
        )
        self.handles[handle.name] = value
        return handle

    def describe(self, node):
        """Returns the node's inputs as (kind, value), in the order of the node."""
        fed = {tensor.name: value for tensor, value in self.feeds.items()}
        return [
            ("var", self.handles[tensor.name])
            if tensor.name in self.handles
            else ("in", fed[tensor.name])
            for tensor in node.inputs
        ]


def make_node(one_case, operands):
    """Adds the case's node with these graph inputs, and returns it."""
    raw_op = getattr(tf.raw_ops, one_case.op)
    arguments = dict(zip(inspect.signature(raw_op).parameters, operands))
    raw_op(**arguments, **one_case.attributes)
    node = tf.compat.v1.get_default_graph().get_operations()[-1]
    assert node.type == one_case.op, node.type
    return node


def run(one_case):
    """Runs the case; a case that fails has no outputs."""
    with tf.Graph().as_default(), tf.compat.v1.Session(config=SESSION_CONFIG) as session:
        operands = _Operands()
        node = make_node(one_case, [operands.bind(operand) for operand in one_case.operands])
        reads = [
            tf.raw_ops.ReadVariableOp(resource=tensor, dtype=operands.handles[tensor.name].dtype)
            for tensor in node.inputs
            if tensor.name in operands.handles
        ]
        inputs = operands.describe(node)
        session.run(operands.initializers, operands.feeds)
        try:
            outputs = session.run({"node": node, "outputs": node.outputs}, operands.feeds)
        except (tf.errors.InvalidArgumentError, tf.errors.InternalError):  # TruncateDiv by zero
            if not one_case.fails:
                raise
            return Result(node, inputs, [], [])
        if one_case.fails:
            raise AssertionError(f"{one_case} should have failed")
        return Result(node, inputs, outputs["outputs"], session.run(reads))


def compute(op, *operands, **attributes):
    """Returns the outputs of an op, for families that need them as operands of another op."""
    return run(case(op, *operands, **attributes)).outputs


_NCHW = [0, 3, 1, 2]


def _image_as_nchw(value):
    return np.ascontiguousarray(np.transpose(value, _NCHW))


def _node_def_as_nchw(node_def):
    node_def.attr["data_format"].s = b"NCHW"
    for name in ("strides", "ksize", "dilations", "explicit_paddings"):
        numbers = node_def.attr[name].list.i if name in node_def.attr else []
        if numbers:
            numbers[:] = np.reshape(numbers, [4, -1])[_NCHW].flatten().tolist()


def _as_nchw(images, result):
    """Converts the node definition, inputs and outputs of a result from NHWC to NCHW."""
    node_def = result.node.node_def
    _node_def_as_nchw(node_def)
    inputs, outputs = list(result.inputs), list(result.outputs)
    for i in images.images:
        inputs[i] = (inputs[i][0], _image_as_nchw(inputs[i][1]))
    for i in images.sizes:
        inputs[i] = (inputs[i][0], inputs[i][1][_NCHW])
    for i in images.outputs:
        outputs[i] = _image_as_nchw(outputs[i])
    return node_def, inputs, outputs


def _attributes(op_def, node_def):
    """Lists the types, and the other attributes that have no default or differ from it."""
    definitions = {attr.name: attr for attr in op_def.attr}
    said = []
    for name, value in sorted(node_def.attr.items()):
        if name.startswith("_"):
            continue
        definition = definitions[name]
        has_default = definition.HasField("default_value")
        if "type" in definition.type or not has_default or value != definition.default_value:
            said.append(f"{name}={attribute_literal(value)}")
    return ", ".join(said)


# The second result of this op has no gradient for its labels, so its own gradient is set to 0.
_LOSS_ALONE = "SoftmaxCrossEntropyWithLogits"

# Only the first result of this op has a gradient.
_FIRST_ALONE = "FusedBatchNormV3"


def results_with_gradients(node):
    """Returns the results that have a gradient."""
    floating = [output for output in node.outputs if output.dtype.is_floating]
    return floating[:1] if node.type == _FIRST_ALONE else floating


def _gradients(one_case):
    """Returns the node, its inputs, random gradients of its results, and its operands' gradients."""
    with tf.Graph().as_default(), tf.compat.v1.Session(config=SESSION_CONFIG) as session:
        operands = _Operands()
        node = make_node(one_case, [operands.bind(operand) for operand in one_case.operands])
        results = results_with_gradients(node)
        values = session.run(results, operands.feeds)
        dy = [sample("double", value.shape, seed=7).astype(value.dtype) for value in values]
        if one_case.op == _LOSS_ALONE:
            dy[1] = np.zeros_like(dy[1])
        grad_ys = [tf.constant(value) for value in dy]
        xs = [tensor for tensor in node.inputs if tensor.dtype.is_floating]
        found = [
            grad if grad is None else tf.convert_to_tensor(grad)  # IndexedSlices, for a gather
            for grad in tf.gradients(results, xs, grad_ys)
        ]
        known = iter(session.run([grad for grad in found if grad is not None], operands.feeds))
        grads = [None if grad is None else next(known) for grad in found]
        return node, operands.describe(node), dy, grads


def gradient_text(one_case):
    """Returns the case with gradients instead of results; empty if tf.gradients finds none."""
    node, inputs, dy, grads = _gradients(one_case)
    if not dy or all(grad is None for grad in grads):
        return ""
    lines = [f"case {one_case.op} {{{_attributes(node.op_def, node.node_def)}}}"]
    lines += [f"{kind} {tensor_literal(value)}" for kind, value in inputs]
    lines += [f"dy {tensor_literal(value)}" for value in dy]
    lines += ["grad none" if grad is None else f"grad {tensor_literal(grad)}" for grad in grads]
    return "\n".join(lines) + "\n"


def case_text(one_case):
    """Runs the case and returns its lines in a reference file."""
    result = run(one_case)
    node_def, inputs, outputs = result.node.node_def, result.inputs, result.outputs
    if one_case.channels_first:
        node_def, inputs, outputs = _as_nchw(one_case.channels_first, result)
    lines = [f"case {one_case.op} {{{_attributes(result.node.op_def, node_def)}}}"]
    lines += [f"{kind} {tensor_literal(value)}" for kind, value in inputs]
    if one_case.fails:
        lines.append("error")
    lines += [f"out {tensor_literal(np.asarray(value))}" for value in outputs]
    lines += [f"after {tensor_literal(value)}" for value in result.after]
    return "\n".join(lines) + "\n"
