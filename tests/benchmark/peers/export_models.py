# SPDX-License-Identifier: Apache-2.0
"""Writes TensorFlow graphs of well-known models, for `mirrorflow bench`.

For `bench inference`, each FOLDER/MODEL.pb is a GraphDef with one placeholder, `inputs`, whose batch
dimension is unknown, and with the weights as constants. The weights are random, but equal in every
run. The statistics of batch normalisation are those of random images, and its gammas and betas are
random, so the activations keep their scale through deep networks and no normalisation is trivial.

With --training, each FOLDER/MODEL_train.pb is a training step with Keras' Adam, for `bench step
--graph`. Its placeholders are `inputs` and `labels`, its target is `train`, and its result is `loss`.
FOLDER/MODEL_train.safetensors holds the initial values of the variables.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import argparse
import pathlib

import keras
import numpy as np
import tensorflow as tf
from keras import applications, layers
from safetensors.numpy import save_file
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

SEED = 1
CALIBRATION_IMAGES = 32
MIN_VARIANCE = 1e-3
CLASSES = 10  # in training
VOCABULARY = 30522


def application(make, size, classes=1000):
    return lambda: make(weights=None, input_shape=(size, size, 3), classes=classes)


def squeezenet():
    """Returns SqueezeNet 1.1 (Iandola et al., 2016) for images of 224x224 pixels."""
    def fire(x, squeezed, expanded):
        x = layers.Conv2D(squeezed, 1, activation="relu")(x)
        return layers.Concatenate()([
            layers.Conv2D(expanded, size, padding="same", activation="relu")(x) for size in (1, 3)])

    inputs = keras.Input([224, 224, 3])
    x = layers.MaxPooling2D(3, 2)(layers.Conv2D(64, 3, strides=2, activation="relu")(inputs))
    x = layers.MaxPooling2D(3, 2)(fire(fire(x, 16, 64), 16, 64))
    x = layers.MaxPooling2D(3, 2)(fire(fire(x, 32, 128), 32, 128))
    for squeezed in (48, 48, 64, 64):
        x = fire(x, squeezed, 4 * squeezed)
    x = layers.Conv2D(1000, 1, activation="relu")(x)
    return keras.Model(inputs, layers.GlobalAveragePooling2D()(x))


def bert(blocks=4, width=256, heads=4, tokens=128, vocabulary=VOCABULARY):
    """Returns an encoder like BERT (Devlin et al., 2018), which normalises after each sum."""
    places = np.random.default_rng(SEED).normal(0, 0.02, (tokens, width)).astype(np.float32)
    inputs = keras.Input([tokens], dtype="int32")
    x = layers.LayerNormalization()(layers.Embedding(vocabulary, width)(inputs) + places)
    for _ in range(blocks):
        seen = layers.MultiHeadAttention(heads, width // heads)(x, x)
        x = layers.LayerNormalization()(x + seen)
        wide = layers.Dense(4 * width, activation="gelu")(x)
        x = layers.LayerNormalization()(x + layers.Dense(width)(wide))
    return keras.Model(inputs, x)


def lstm():
    """Returns the sequence classifier of `bench serving`."""
    return keras.Sequential([keras.Input([60, 32]), layers.LSTM(32, unroll=True),
                             layers.Dense(10)])


def mlp():
    """Returns the classifier of `bench serving`."""
    return keras.Sequential([keras.Input([784]), layers.Dense(512, activation="relu"),
                             layers.Dense(512, activation="relu"), layers.Dense(10)])


MODELS = {
    "resnet50_64": application(applications.ResNet50, 64),
    "resnet50_224": application(applications.ResNet50, 224),
    "vgg16_32": application(applications.VGG16, 32, classes=10),
    "inceptionv3_96": application(applications.InceptionV3, 96),
    "mobilenetv2_96": application(applications.MobileNetV2, 96),
    "mobilenetv2_224": application(applications.MobileNetV2, 224),
    "efficientnetb0_64": application(applications.EfficientNetB0, 64),
    "squeezenet_224": squeezenet,
    "bert": bert,
    "lstm": lstm,
    "mlp": mlp,
}


def batch_norms(model):
    return [layer for layer in model.layers if isinstance(layer, layers.BatchNormalization)]


def randomise(model, generator):
    """Sets biases, gammas and betas to random numbers, and then the statistics of batch
    normalisation to those of random images."""
    norms = batch_norms(model)
    # Otherwise, the activations of a deep model without normalisation would vanish.
    he_normal = not norms and len(model.input_shape) == 4
    for weight in model.trainable_weights:
        if weight.name == "gamma":
            weight.assign(generator.uniform(0.5, 1.5, weight.shape))
        elif weight.name in ("beta", "bias"):
            weight.assign(weight + generator.normal(0, 0.1, weight.shape))
        elif he_normal:
            deviation = (2 / np.prod(weight.shape[:-1]))**0.5
            weight.assign(generator.normal(0, deviation, weight.shape))
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0  # the moving statistics become those of the batch
    # Images that differ only by noise would make the statistics of deep layers, and with them the
    # rounding errors, too sensitive.
    colours = generator.random((CALIBRATION_IMAGES, 1, 1, model.input_shape[-1]), np.float32)
    images = colours * generator.random((CALIBRATION_IMAGES, *model.input_shape[1:]), np.float32)
    model(images, training=True)
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum
        norm.moving_variance.assign(np.maximum(norm.moving_variance, MIN_VARIANCE))


def frozen(model):
    """Returns a GraphDef with the model's inference step."""
    inputs = tf.TensorSpec(model.input_shape, model.inputs[0].dtype, name="inputs")
    step = tf.function(lambda x: model(x, training=False), input_signature=[inputs])
    return convert_variables_to_constants_v2(step.get_concrete_function()).graph.as_graph_def()


def training_step(model):
    """Returns a GraphDef of a training step, and the values of its variables by name. The node `loss`
    is the result, and `train` runs the step."""
    logits = model.outputs[0]
    if model.layers[-1].name == "predictions":
        model.layers[-1].activation = keras.activations.linear
    elif len(logits.shape) == 3:
        logits = layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(logits))
    model = keras.Model(model.inputs, logits)
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)

    def step(inputs, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels, model(inputs, training=True))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    inputs = tf.TensorSpec(model.input_shape, model.inputs[0].dtype, name="inputs")
    labels = tf.TensorSpec([None], tf.int32, name="labels")
    function = tf.function(step, input_signature=[inputs, labels]).get_concrete_function()
    # In the file, the captured variables are handles, and other captured tensors are constants.
    values = {id(variable.handle): np.asarray(variable) for variable in function.graph.variables}
    variables = {}
    with tf.Graph().as_default() as graph:
        replaced = {f"{spec.name}:0": tf.compat.v1.placeholder(spec.dtype, spec.shape, spec.name)
                    for spec in (inputs, labels)}
        for outside, inside in function.graph.captures:
            if id(outside) in values:
                name, value = inside.op.name, values[id(outside)]
                variables[name] = value
                replaced[inside.name] = tf.raw_ops.VarHandleOp(
                    dtype=value.dtype, shape=value.shape, shared_name=name, name=name)
            else:
                replaced[inside.name] = tf.constant(outside.numpy())
        loss, *updates = tf.graph_util.import_graph_def(
            function.graph.as_graph_def(), replaced, name="step",
            return_elements=[function.outputs[0].name] +
            [operation.name for operation in function.graph.control_outputs])
        tf.identity(loss, "loss")
        tf.group(*updates, name="train")
    return graph.as_graph_def(), variables


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="*", metavar="model",
                        help=f"any of {', '.join(MODELS)}; default: all")
    parser.add_argument("--training", action="store_true", help="write training steps")
    args = parser.parse_args()
    if unknown := sorted(set(args.models) - set(MODELS)):
        parser.error(f"unknown model; expected any of {', '.join(MODELS)}, "
                     f"got {', '.join(unknown)}")
    folder = args.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in args.models or MODELS:
        keras.utils.set_random_seed(SEED)
        model = MODELS[name]()
        randomise(model, np.random.default_rng(SEED))
        if args.training:
            graph, variables = training_step(model)
            name += "_train"
            save_file(variables, folder / f"{name}.safetensors")
        else:
            graph = frozen(model)
        (folder / f"{name}.pb").write_bytes(graph.SerializeToString())
        print(f"{name}: {len(graph.node)} nodes, {model.count_params()} weights", flush=True)


if __name__ == "__main__":
    main()
