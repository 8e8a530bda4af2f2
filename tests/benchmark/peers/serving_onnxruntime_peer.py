# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime: the model in ONNX's native layout (channels first) with its LSTM op, all graph
optimisations, and a preallocated input and output (IoBinding). A request computes on the calling
thread."""

import peer  # before other libraries, because it sets the cores

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import serving

OPSET, IR_VERSION = 17, 8
case = peer.case_of_arguments()


class Graph:
    """A graph under construction, from the input `x` of the given shape."""

    def __init__(self, shape):
        self.shape = shape
        self.nodes, self.weights = [], []

    def constant(self, value):
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, op, *inputs, outputs=None, **attributes):
        """Adds a node and returns the name of its last output."""
        outputs = outputs or [f"value_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op, inputs, outputs, **attributes))
        return outputs[-1]

    def session(self, output, shape):
        floats = TensorProto.FLOAT
        graph = helper.make_graph(self.nodes, "model",
                                  [helper.make_tensor_value_info("x", floats, self.shape)],
                                  [helper.make_tensor_value_info(output, floats, shape)],
                                  self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                                  ir_version=IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                            providers=["CPUExecutionProvider"])


def feed_forward():
    shape = case.inputs.shape
    if len(shape) == 4:
        assert shape[3] == 1, "channels last are channels first only if there is one channel"
        shape = (shape[0], shape[3], shape[1], shape[2])
    graph = Graph(shape)
    layers, x, filters = peer.pairs(case.weights), "x", 0
    for i, (kernel, bias) in enumerate(layers):
        if kernel.ndim == 4:
            x = graph.node("Conv", x, graph.constant(kernel.transpose(3, 2, 0, 1)),
                           graph.constant(bias))
            x = graph.node("MaxPool", graph.node("Relu", x), kernel_shape=[2, 2], strides=[2, 2])
            filters = kernel.shape[3]
            continue
        if filters > 0:
            x = graph.node("Flatten", x)
            # Reorders the kernel's rows from [h, w, channel] to [channel, h, w].
            kernel = kernel.reshape(-1, filters, kernel.shape[1]).swapaxes(0, 1)
            kernel = kernel.reshape(-1, kernel.shape[2])
            filters = 0
        x = graph.node("Gemm", x, graph.constant(kernel), graph.constant(bias))
        if i + 1 < len(layers):
            x = graph.node("Relu", x)
    return graph, x


def lstm():
    def gates(weight):  # in ONNX's order
        i, f, new, o = np.split(weight, 4, axis=-1)
        return np.concatenate([i, o, f, new], axis=-1)

    kernel, bias, last_kernel, last_bias = case.weights
    _, steps, inputs = case.inputs.shape
    kernel, bias = gates(kernel), gates(bias)
    graph = Graph((steps, 1, inputs))
    output = graph.node("LSTM", "x", graph.constant(kernel[:inputs].T[np.newaxis]),
                        graph.constant(kernel[inputs:].T[np.newaxis]),
                        graph.constant(np.concatenate([bias, np.zeros_like(bias)])[np.newaxis]),
                        outputs=["", "last_output"], hidden_size=len(kernel) - inputs)
    output = graph.node("Squeeze", output, graph.constant(np.array([0], np.int64)))
    return graph, graph.node("Gemm", output, graph.constant(last_kernel),
                             graph.constant(last_bias))


def request_to(session, example):
    """Returns a function that runs the session on preallocated, bound memory."""
    binding = session.io_binding()
    binding.bind_cpu_input("x", example)
    result = session.get_outputs()[0]
    output = onnxruntime.OrtValue.ortvalue_from_shape_and_type(result.shape, np.float32)
    binding.bind_ortvalue_output(result.name, output)

    def request():
        session.run_with_iobinding(binding)
        return output.numpy()

    return request


def model_request():
    graph, logits = (lstm if case.model == "lstm" else feed_forward)()
    session = graph.session(logits, (1, len(case.weights[-1])))
    # For a batch of one example, ONNX's layouts have the same bytes.
    return request_to(session, np.ascontiguousarray(case.inputs.reshape(graph.shape)))


def empty_call():
    graph = Graph(case.inputs.shape)
    return request_to(graph.session(graph.node("Neg", "x"), graph.shape), case.inputs)


if __name__ == "__main__":
    serving.talk(onnxruntime.__version__, model_request, empty_call)
