# SPDX-License-Identifier: Apache-2.0
"""Exports training graphs written by TensorFlow, with TensorFlow's results.

Each graph goes to training/NAME.pb; a batch, the losses of five steps on it and the variables after
steps 1 and 5 go to training/NAME.txt. The numbers are computed from the exported bytes, so they
match the file. There are two kinds: v1 graphs with symbolic gradients and fused updates, and Keras
3 models whose training step is a tf.function, saved with its variables captured (updates by
assignments, also in branches and loops).
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # TensorFlow's own kernels vary less between machines

import argparse
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from case import SESSION_CONFIG
from literals import tensor_literal

_FOLDER = pathlib.Path(__file__).resolve().parent / "training"
_ROWS = 12
_CLASSES = 4
_STEPS = 5
_SAVED_STEPS = (1, _STEPS)
tf1 = tf.compat.v1
tf.config.optimizer.set_jit(False)


# v1 graphs. A model is a function of (generator, inputs) that returns logits.


def _variable(name, value):
    return tf1.get_variable(name, initializer=value.astype(np.float32), use_resource=True)


def _weights(generator, name, shape):
    fan_in = int(np.prod(shape[:-1]))
    return _variable(name, generator.normal(0, fan_in**-0.5, shape).round(4))


def _dense(generator, name, inputs, units):
    kernel = _weights(generator, f"{name}/kernel", [inputs.shape[-1], units])
    bias = _variable(f"{name}/bias", generator.normal(0, 0.1, [units]).round(4))
    return tf.nn.bias_add(tf.matmul(inputs, kernel, name=f"{name}/MatMul"), bias,
                          name=f"{name}/BiasAdd")


def _linear(generator, inputs):
    return _dense(generator, "dense", inputs, _CLASSES)


def _mlp(generator, inputs):
    hidden = tf.nn.relu(_dense(generator, "dense", inputs, 8))
    hidden = tf.nn.relu(_dense(generator, "dense_1", hidden, 6))
    return _dense(generator, "dense_2", hidden, _CLASSES)


def _convolution(generator, name, inputs, filters):
    kernel = _weights(generator, f"{name}/kernel", [3, 3, inputs.shape[-1], filters])
    return tf.nn.conv2d(inputs, kernel, strides=1, padding="SAME", name=f"{name}/Conv2D")


def _cnn(generator, inputs):
    hidden = _convolution(generator, "conv", inputs, 3)
    bias = _variable("conv/bias", np.full([3], 0.1))
    hidden = tf.nn.relu(tf.nn.bias_add(hidden, bias))
    hidden = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
    return _dense(generator, "dense", tf.reshape(hidden, [-1, 27]), _CLASSES)


def _batch_norm_cnn(generator, inputs):
    hidden = _convolution(generator, "conv", inputs, 3)
    scale, offset = _variable("norm/gamma", np.ones([3])), _variable("norm/beta", np.zeros([3]))
    hidden, _, _ = tf1.nn.fused_batch_norm(hidden, scale, offset, epsilon=0.001, is_training=True)
    hidden = tf.nn.avg_pool2d(tf.nn.relu(hidden), 2, 2, "SAME")
    return _dense(generator, "dense", tf.reshape(hidden, [-1, 27]), _CLASSES)


def _lstm(generator, inputs):
    """Builds an LSTM that is unrolled over the second dimension of the inputs."""
    units = 5
    kernel = _weights(generator, "lstm/kernel", [inputs.shape[-1] + units, 4 * units])
    bias = _variable("lstm/bias", np.zeros([4 * units]))
    state = output = tf.zeros([tf.shape(inputs)[0], units])
    for x in tf.unstack(inputs, axis=1):
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x, output], 1), kernel), bias)
        i, j, f, o = tf.split(gates, 4, axis=1)
        state = tf.sigmoid(f + 1.0) * state + tf.sigmoid(i) * tf.tanh(j)
        output = tf.sigmoid(o) * tf.tanh(state)
    return _dense(generator, "dense", output, _CLASSES)


def _slot(variable, name, value=0.0):
    return _variable(f"{variable.op.name}/{name}", np.full(variable.shape, value)).handle


def _gradient_descent(variable, gradient):
    return tf.raw_ops.ResourceApplyGradientDescent(
        var=variable.handle, alpha=tf.constant(0.1), delta=gradient)


def _momentum(variable, gradient):
    return tf.raw_ops.ResourceApplyMomentum(
        var=variable.handle, accum=_slot(variable, "momentum"), lr=tf.constant(0.1),
        grad=gradient, momentum=tf.constant(0.9))


def _adam(variable, gradient):
    powers = [_variable(f"{variable.op.name}/{name}", np.float32(value))
              for name, value in (("beta1_power", 0.9), ("beta2_power", 0.999))]
    update = tf.raw_ops.ResourceApplyAdam(
        var=variable.handle, m=_slot(variable, "m"), v=_slot(variable, "v"),
        beta1_power=powers[0], beta2_power=powers[1], lr=tf.constant(0.01),
        beta1=tf.constant(0.9), beta2=tf.constant(0.999), epsilon=tf.constant(1e-7),
        grad=gradient)
    with tf.control_dependencies([update]):
        return tf.group(powers[0].assign(powers[0] * 0.9, read_value=False),
                        powers[1].assign(powers[1] * 0.999, read_value=False))


def _adagrad(variable, gradient):
    return tf.raw_ops.ResourceApplyAdagradV2(
        var=variable.handle, accum=_slot(variable, "accumulator", 0.1), lr=tf.constant(0.1),
        epsilon=tf.constant(1e-7), grad=gradient)


def _rmsprop(variable, gradient):
    return tf.raw_ops.ResourceApplyRMSProp(
        var=variable.handle, ms=_slot(variable, "rms", 1.0), mom=_slot(variable, "momentum"),
        lr=tf.constant(0.01), rho=tf.constant(0.9), momentum=tf.constant(0.5),
        epsilon=tf.constant(1e-3), grad=gradient)


# Maps each name to the model, the shape of one input and the update of one variable.
_V1 = {
    "linear_gradient_descent": (_linear, [6], _gradient_descent),
    "mlp_momentum": (_mlp, [7], _momentum),
    "cnn_adam": (_cnn, [6, 6, 2], _adam),
    "batch_norm_rmsprop": (_batch_norm_cnn, [6, 6, 2], _rmsprop),
    "lstm_adagrad": (_lstm, [4, 3], _adagrad),
}


def _export_v1(generator, model, shape, update):
    """Returns the GraphDef and the names of the feeds, the fetch and the target."""
    with tf.Graph().as_default() as graph:
        inputs = tf1.placeholder(tf.float32, [None, *shape], name="inputs")
        labels = tf1.placeholder(tf.int32, [None], name="labels")
        entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=model(generator, inputs))
        loss = tf.reduce_mean(entropies, name="loss")
        trained = tf1.trainable_variables()
        updates = [update(v, g) for v, g in zip(trained, tf.gradients(loss, trained))]
        tf.group(*updates, name="train")
        variables = tf1.global_variables()
        initializers = {v.handle.op.name: v.initial_value.op.name for v in variables}
        graph_def = tf1.graph_util.extract_sub_graph(
            graph.as_graph_def(), ["loss", "train", *initializers.values()])
    for node in graph_def.node:
        if node.op == "VarHandleOp":
            node.attr["_initializer"].s = initializers[node.name].encode()
    return graph_def, ["inputs", "labels"], "loss", "train"


# Keras 3.


def _keras_mlp():
    return keras.Sequential([keras.Input([7]), keras.layers.Dense(8, activation="relu"),
                             keras.layers.Dense(_CLASSES)])


def _keras_dropout():
    """Returns a model that draws two masks, each from a seed variable that every call changes."""
    return keras.Sequential([
        keras.Input([7]), keras.layers.Dropout(0.2, seed=5),
        keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.4, seed=3),
        keras.layers.Dense(_CLASSES)])


def _keras_noise():
    """Returns a model with normal noise, and a mask that replaces values with one far from 0."""
    return keras.Sequential([
        keras.Input([7]), keras.layers.GaussianNoise(0.5, seed=11), keras.layers.Dense(8),
        keras.layers.AlphaDropout(0.3, seed=2), keras.layers.Dense(_CLASSES)])


def _keras_cnn():
    return keras.Sequential([
        keras.Input([6, 6, 2]), keras.layers.Conv2D(3, 3, activation="relu"),
        keras.layers.MaxPooling2D(), keras.layers.Flatten(), keras.layers.Dense(_CLASSES)])


def _keras_recurrent(layer):
    """Returns a recurrent model, which TensorFlow turns into a loop with lists of tensors."""
    return lambda: keras.Sequential(
        [keras.Input([6, 3]), layer(5, unroll=False), keras.layers.Dense(_CLASSES)])


def _accumulating_sgd():
    """Returns an optimizer that updates the variables in every second step, in a branch."""
    return keras.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=2)


_KERAS = {
    "keras_mlp_sgd": (_keras_mlp, [7], lambda: keras.optimizers.SGD(0.1, momentum=0.9)),
    "keras_mlp_adam": (_keras_mlp, [7], lambda: keras.optimizers.Adam(0.01)),
    "keras_mlp_adagrad": (_keras_mlp, [7], lambda: keras.optimizers.Adagrad(0.1)),
    "keras_mlp_rmsprop": (_keras_mlp, [7], lambda: keras.optimizers.RMSprop(0.01)),
    "keras_mlp_nesterov": (
        _keras_mlp, [7],
        lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, clipnorm=1.0)),
    "keras_mlp_adamw": (_keras_mlp, [7], lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1)),
    "keras_mlp_nadam": (_keras_mlp, [7], lambda: keras.optimizers.Nadam(0.01)),
    "keras_mlp_adamax": (_keras_mlp, [7], lambda: keras.optimizers.Adamax(0.01)),
    "keras_mlp_adadelta": (_keras_mlp, [7], lambda: keras.optimizers.Adadelta(1.0)),
    "keras_mlp_dropout": (_keras_dropout, [7], lambda: keras.optimizers.SGD(0.1, momentum=0.9)),
    "keras_mlp_noise": (_keras_noise, [7], lambda: keras.optimizers.Adam(0.01)),
    "keras_cnn_adam": (_keras_cnn, [6, 6, 2], lambda: keras.optimizers.Adam(0.01)),
    "keras_mlp_accumulating": (_keras_mlp, [7], _accumulating_sgd),
    "keras_lstm_sgd": (_keras_recurrent(keras.layers.LSTM), [6, 3],
                       lambda: keras.optimizers.SGD(0.1, momentum=0.9)),
    "keras_gru_adam": (_keras_recurrent(keras.layers.GRU), [6, 3],
                       lambda: keras.optimizers.Adam(0.01)),
    "keras_simple_rnn_rmsprop": (_keras_recurrent(keras.layers.SimpleRNN), [6, 3],
                                 lambda: keras.optimizers.RMSprop(0.01)),
    "keras_mlp_looping": (_keras_mlp, [7], lambda: keras.optimizers.Adam(0.01), 3),
}


def _training_step(model, optimizer, shape, updates):
    """Returns a module with the variables and a step that runs one update, or several in a loop."""
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer.build(model.trainable_variables)

    class Training(tf.Module):
        """The saved module."""

        def __init__(self):
            super().__init__()
            self.kept = [v.value for v in [*model.variables, *optimizer.variables]]

        @tf.function(input_signature=[tf.TensorSpec([None, *shape], tf.float32, name="inputs"),
                                      tf.TensorSpec([None], tf.int32, name="labels")])
        def step(self, inputs, labels):
            """Runs one step of training."""
            if updates == 1:
                return {"loss": self.update(inputs, labels)}
            loss = tf.constant(0.0)
            for _ in tf.range(updates):
                loss = self.update(inputs, labels)
            return {"loss": loss}

        def update(self, inputs, labels):
            """Updates all variables; returns the loss before the update."""
            with tf.GradientTape() as tape:
                loss = loss_fn(labels, model(inputs, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

    return Training()


def _export_keras(generator, make_model, shape, make_optimizer, updates=1):
    keras.utils.set_random_seed(int(generator.integers(1000)))
    module = _training_step(make_model(), make_optimizer(), shape, updates)
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures={"step": module.step})
        saved = saved_model_pb2.SavedModel.FromString(
            (pathlib.Path(folder) / "saved_model.pb").read_bytes())
    graph_def = saved.meta_graphs[0].graph_def
    signature = saved.meta_graphs[0].signature_def["step"]
    values = {v.name.removesuffix(":0"): v.numpy() for v in module.kept}
    for node in graph_def.node:
        node.ClearField("device")
        if node.op != "VarHandleOp":
            continue
        value = values[node.attr["shared_name"].s.decode()]
        initial = graph_def.node.add(name=f"initial/{node.name}", op="Const")
        initial.attr["dtype"].type = node.attr["dtype"].type
        initial.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
        node.attr["_initializer"].s = initial.name.encode()
    feeds = [signature.inputs[name].name.split(":")[0] for name in ("inputs", "labels")]
    loss = signature.outputs["loss"].name.split(":")[0]
    return graph_def, feeds, loss, loss


# Both kinds of graphs.


def _read_and_assign_ops(graph):
    """Returns reads by variable name, and the assignments of all initial values."""
    reads, assignments = {}, []
    for node in graph.get_operations():
        if node.type != "VarHandleOp":
            continue
        (handle,) = node.outputs
        initializer = node.get_attr("_initializer").decode()
        initial_value = graph.get_tensor_by_name(f"{initializer}:0")
        name = node.get_attr("shared_name").decode() or node.name
        reads[name] = tf.raw_ops.ReadVariableOp(resource=handle, dtype=node.get_attr("dtype"))
        assignments.append(tf.raw_ops.AssignVariableOp(resource=handle, value=initial_value))
    return reads, assignments


def _run(graph_bytes, batch, loss, train):
    """Trains the exported graph; yields the lines of losses and variables."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf1.GraphDef.FromString(graph_bytes), name="")
        reads, assignments = _read_and_assign_ops(graph)
        feeds = {f"{name}:0": value for name, value in batch.items()}
        with tf1.Session(config=SESSION_CONFIG) as session:
            session.run(assignments)
            for step in range(1, _STEPS + 1):
                value, _ = session.run([f"{loss}:0", graph.get_operation_by_name(train)], feeds)
                yield f"loss {step} {tensor_literal(value)}"
                if step in _SAVED_STEPS:
                    for name, value in session.run(reads).items():
                        yield f"variable {name} step {step} {tensor_literal(value)}"


def _write(name):
    generator = np.random.default_rng(20)
    export, arguments = (_export_v1, _V1[name]) if name in _V1 else (_export_keras, _KERAS[name])
    graph_def, feeds, loss, train = export(generator, *arguments)
    graph_bytes = graph_def.SerializeToString(deterministic=True)
    batch = {
        feeds[0]: generator.normal(0, 1, [_ROWS, *arguments[1]]).round(3).astype(np.float32),
        feeds[1]: generator.integers(0, _CLASSES, [_ROWS]).astype(np.int32),
    }
    lines = [
        f"# Training of {name}.pb; every step is fed the same batch.",
        "# The loss of a step is from before its update, its variables are from after it.",
        f"# Made by make_training_graphs.py with TensorFlow {tf.__version__}, Keras"
        f" {keras.__version__}, NumPy {np.__version__}.",
        f"fetch {loss}",
        f"target {train}",
        *(f"feed {feed} {tensor_literal(value)}" for feed, value in batch.items()),
        *_run(graph_bytes, batch, loss, train),
    ]
    (_FOLDER / f"{name}.pb").write_bytes(graph_bytes)
    (_FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{name}: {len(graph_bytes)} bytes, {len(lines)} lines")


def main():
    """Writes all graphs, or those named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    _FOLDER.mkdir(exist_ok=True)
    for name in parser.parse_args().names or [*_V1, *_KERAS]:
        _write(name)


if __name__ == "__main__":
    main()
