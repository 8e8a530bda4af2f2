#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Keras 3 models that TensorFlow saved with `mirrorflow run`, on 1 and on 3 replicas.

Usage: check_keras_models.py MIRRORFLOW [MODEL...]

Each model gets random weights and is saved as a SavedModel, and `mirrorflow run` gets only the
graph and the weights from it. Prints the difference from Keras' result. Fails if it exceeds 1e-4 of
the largest number in that result, or if a model does not run. Run it by hand, because it needs
TensorFlow 2.21, Keras 3 and safetensors from PyPI.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import applications, layers
from safetensors.numpy import save_file
from tensorflow.core.protobuf import saved_model_pb2

TOLERANCE = 1e-4
ROWS = 6


def application(make, size=64):
    return make(weights=None, input_shape=(size, size, 3), classes=10, classifier_activation=None)


def sequence(shape, *steps):
    return keras.Sequential([keras.Input(shape), *steps, layers.Dense(4)])


def transformer():
    """Returns a model with one encoder block over tokens."""
    tokens = keras.Input([16], dtype="int32")
    x = layers.Embedding(50, 32)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 8)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(32)(layers.Dense(64, activation="gelu")(x)))
    return keras.Model(tokens, layers.Dense(4)(layers.GlobalAveragePooling1D()(x)))


def normalised():
    return sequence((8, 8, 3), layers.GroupNormalization(3), layers.LayerNormalization(),
                    layers.UnitNormalization(), layers.Flatten())


def in_one_dimension():
    return sequence((20, 5), layers.Conv1D(8, 3, padding="causal", dilation_rate=2,
                                           activation="swish"),
                    layers.MaxPooling1D(), layers.SeparableConv1D(8, 3),
                    layers.GlobalMaxPooling1D(), layers.PReLU())


def in_two_dimensions():
    return sequence((8, 8, 3), layers.Conv2DTranspose(8, 3, strides=2, padding="same",
                                                      activation="elu"),
                    layers.UpSampling2D(2), layers.ZeroPadding2D(), layers.Cropping2D(),
                    layers.AveragePooling2D(2), layers.DepthwiseConv2D(3, activation="mish"),
                    layers.Permute((2, 1, 3)), layers.Flatten())


MODELS = {
    "densenet": lambda: application(applications.DenseNet121),
    "convnext": lambda: application(applications.ConvNeXtTiny, 32),
    "efficientnet": lambda: application(applications.EfficientNetB0),
    "efficientnet_v2": lambda: application(applications.EfficientNetV2B0),
    "inception": lambda: application(applications.InceptionV3, 75),
    "mobilenet": lambda: application(applications.MobileNet),
    "mobilenet_v2": lambda: application(applications.MobileNetV2),
    "mobilenet_v3": lambda: application(applications.MobileNetV3Small),
    "nasnet": lambda: application(applications.NASNetMobile, 32),
    "resnet50": lambda: application(applications.ResNet50),
    "resnet50_v2": lambda: application(applications.ResNet50V2),
    "vgg": lambda: application(applications.VGG16, 32),
    "xception": lambda: application(applications.Xception, 71),
    "in_one_dimension": in_one_dimension,
    "in_two_dimensions": in_two_dimensions,
    "normalised": normalised,
    "transformer": transformer,
    "lstm": lambda: sequence((7, 5), layers.LSTM(8)),
    "gru_both_ways": lambda: sequence((7, 5), layers.Bidirectional(
        layers.GRU(8, return_sequences=True))),
}


def save(model, folder):
    """Writes the graph and the weights to the folder; returns the names to feed and to fetch."""
    specification = tf.TensorSpec(model.input_shape, model.inputs[0].dtype, name="inputs")
    module = tf.Module()
    module.kept = [variable.value for variable in model.variables]
    module.call = tf.function(lambda inputs: {"outputs": model(inputs, training=False)},
                              input_signature=[specification])
    with contextlib.redirect_stdout(io.StringIO()):
        tf.saved_model.save(module, str(folder), signatures={"call": module.call})
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    (folder / "g.pb").write_bytes(saved.meta_graphs[0].graph_def.SerializeToString())
    save_file({variable.name.removesuffix(":0"): np.array(variable.numpy()) for variable in module.kept},
              str(folder / "v.safetensors"))
    signature = saved.meta_graphs[0].signature_def["call"]
    return signature.inputs["inputs"].name.split(":")[0], signature.outputs["outputs"].name


def check(name, mirrorflow):
    """Prints a line and returns whether the model runs and gives the right numbers."""
    keras.utils.set_random_seed(3)
    model = MODELS[name]()
    dtype = model.inputs[0].dtype
    generator = np.random.default_rng(4)
    shape = (ROWS, *model.input_shape[1:])
    inputs = (generator.integers(0, 50, shape).astype(np.int32) if dtype == "int32"
              else generator.normal(size=shape).astype(np.float32))
    expected = model(inputs, training=False).numpy()
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        feed, fetch = save(model, folder)
        np.save(folder / "x.npy", inputs)
        apart = []
        for replicas in 1, 3:
            ran = subprocess.run(
                [mirrorflow, "run", "--graph=g.pb", "--variables=v.safetensors",
                 f"--feed={feed}=x.npy", f"--fetch={fetch}=y.npy", f"--replicas={replicas}"],
                cwd=folder, capture_output=True, text=True, check=False)
            if ran.returncode != 0:
                print(f"{name}: {ran.stderr.strip()[:500]}", flush=True)
                return False
            apart.append(abs(np.load(folder / "y.npy") - expected).max() / abs(expected).max())
    print(f"{name}: difference {apart[0]:.1e}, on 3 replicas {apart[1]:.1e}", flush=True)
    return max(apart) <= TOLERANCE


def main(mirrorflow, *names):
    passed = [check(name, os.path.abspath(mirrorflow)) for name in names or MODELS]
    print(f"{sum(passed)} of {len(passed)} models match Keras")
    return 0 if all(passed) else 1


sys.exit(main(*sys.argv[1:]))
