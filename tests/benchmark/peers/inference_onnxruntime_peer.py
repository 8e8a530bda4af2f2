# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime: the graph as tf2onnx converts it, with static shapes, all graph optimisations, and
preallocated inputs and outputs (IoBinding). Layer normalisation keeps its parts, because
ONNX Runtime's fused op took 13 % longer for an encoder like BERT."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import inference  # before other libraries, because it sets the cores

import numpy as np
import onnxruntime
import tensorflow as tf
import tf2onnx
from onnx import TensorProto, helper

import peer
import tensorflow_graph

OPSET, IR_VERSION = 17, 8


def convert_erfc(context, node, _name, _arguments):
    """Replaces Erfc, which ONNX lacks, by 1 + Erf(-x). In Keras' exact Gelu, x is y * -1 / sqrt(2);
    there, the result has the form that ONNX Runtime fuses."""
    scaled = node.inputs[0]
    if (scaled.type == "Mul" and scaled.inputs[0].type == "Neg" and scaled.inputs[1].is_const()):
        divisor = 1 / scaled.inputs[1].get_tensor_value(as_list=False)
        divisor = context.make_const(tf2onnx.utils.make_name("divisor"), divisor)
        negated = context.make_node("Div", [scaled.inputs[0].input[0], divisor.output[0]])
    else:
        negated = context.make_node("Neg", node.input)
    erf = context.make_node("Erf", negated.output)
    one = context.make_const(tf2onnx.utils.make_name("one"), np.ones([], np.float32))
    outputs, shapes, dtypes = node.output, node.output_shapes, node.output_dtypes
    context.remove_node(node.name)
    context.make_node("Add", [erf.output[0], one.output[0]], outputs=outputs, shapes=shapes,
                      dtypes=dtypes, name=node.name)


def to_onnx(function):
    """Returns the ONNX model, whose inputs and outputs have the names of the function's."""
    tf.get_logger().setLevel("ERROR")
    model, _ = tf2onnx.convert.from_graph_def(
        function.graph.as_graph_def(), input_names=names(function.inputs),
        output_names=names(function.outputs), opset=OPSET,
        custom_op_handlers={"Erfc": (convert_erfc, [])})
    return model


def bind(model, feeds, fetches):
    """Returns a function that runs the model on bound memory. `feeds` holds the values by name,
    `fetches` values with the shapes and dtypes of the results by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = peer.LOCAL_REPLICAS, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for each in session.get_inputs():  # the conversion removes unused inputs
        binding.bind_cpu_input(each.name, np.ascontiguousarray(feeds[each.name]))
    outputs = []
    for name, value in fetches.items():
        outputs.append(onnxruntime.OrtValue.ortvalue_from_shape_and_type(value.shape, value.dtype))
        binding.bind_ortvalue_output(name, outputs[-1])

    def run():
        session.run_with_iobinding(binding)
        return outputs

    return run


def empty_call():
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "empty", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                              ir_version=IR_VERSION)
    number = np.ones([], np.float32)
    return bind(model, {"x": number}, {"y": number})


def names(tensors):
    return [tensor.name for tensor in tensors]


def main():
    case = inference.case_of_arguments()
    peer.say("loading", case.graph)
    function = tensorflow_graph.Step(case).function
    peer.say("converting", "to", "ONNX")
    feeds = dict(zip(names(function.inputs), case.feeds.values(), strict=True))
    fetches = dict(zip(names(function.outputs), case.fetches.values(), strict=True))
    inference.talk(case, onnxruntime.__version__, "all_optimisations",
                   bind(to_onnx(function), feeds, fetches), empty_call())


main()
