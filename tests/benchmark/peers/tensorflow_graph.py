# SPDX-License-Identifier: Apache-2.0
"""The step of an inference.Case as a TensorFlow function. Import it after setting the number of
threads that TensorFlow uses."""

import peer  # before other libraries, because it sets the cores

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2


def read_graph(path):
    graph = tf.compat.v1.GraphDef()
    with open(path, "rb") as file:
        if path.endswith((".pbtxt", ".pb.txt")):
            text_format.Parse(file.read().decode(), graph)
        else:
            graph.ParseFromString(file.read())
    return graph


def node_of(tensor):
    return tensor.rsplit(":", 1)[0]


def fix_shapes(graph, case):
    """Gives fed placeholders the shapes of their values, which lets TensorFlow fold more."""
    shapes = {node_of(name): value.shape for name, value in case.feeds.items()}
    for node in graph.node:
        if node.op == "Placeholder" and node.name in shapes:
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(shapes[node.name]).as_proto())


class Step:
    """A function from the feeds to the fetches, in the case's orders. The variables are constants,
    unless the step has targets, which may write them."""

    def __init__(self, case):
        graph = read_graph(case.graph)
        fix_shapes(graph, case)
        self.case = case
        self.variables = {name: tf.Variable(value, trainable=False)
                          for name, value in case.variables.items()}

        def imported():
            capture = tf.compat.v1.get_default_graph().capture
            handles = {f"{name}:0": capture(variable.handle)
                       for name, variable in self.variables.items()}
            tf.graph_util.import_graph_def(graph, input_map=handles, name="")

        whole = tf.compat.v1.wrap_function(imported, [])
        whole.graph.variables = self.variables.values()
        targets = [whole.graph.get_operation_by_name(name) for name in case.targets]
        self.function = whole.prune(list(case.feeds), list(case.fetches) + targets)
        if self.variables and not targets:
            self.function = convert_variables_to_constants_v2(self.function)

    def __call__(self, *feeds):
        return self.function(*feeds)[:len(self.case.fetches)]  # without the targets' None

    def reset(self):
        """Restores the variables."""
        for name, variable in self.variables.items():
            variable.assign(self.case.variables[name])
