#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small Keras model and writes the variables of its SavedModel as a safetensors file.

The model classifies the classes 0 to 4 of Fashion-MNIST; examples/transfer_learning.cc has the same
lower layers. Writes examples/keras.safetensors in this folder, or the path given as an argument.
Needs the Debian package dataset-fashion-mnist and, besides TensorFlow, safetensors from PyPI.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import gzip
import pathlib
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from safetensors.numpy import save_file

_DATA = pathlib.Path(os.environ.get("FASHION_MNIST_DIR", "/usr/share/datasets/fashion-mnist"))
_CLASSES = 5
_EPOCHS = 5


def read(part):
    """Returns the images of the first classes, [N,28,28,1] in [0, 1], and their labels."""
    images = gzip.decompress((_DATA / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((_DATA / f"{part}-labels-idx1-ubyte.gz").read_bytes())[8:]
    images = np.frombuffer(images, np.uint8).reshape(-1, 28, 28, 1)
    labels = np.frombuffer(labels, np.uint8).astype(np.int32)
    chosen = labels < _CLASSES
    return images[chosen].astype(np.float32) / 255, labels[chosen]


def build():
    steps = []
    for i in 1, 2, 3:
        steps += [layers.Conv2D(4 << i, 3, padding="same", use_bias=False, name=f"conv{i}"),
                  layers.BatchNormalization(name=f"norm{i}"), layers.ReLU(), layers.MaxPooling2D()]
    return keras.Sequential([keras.Input((28, 28, 1)), *steps, layers.Flatten(),
                             layers.Dense(_CLASSES, name="logits")], name="base")


def main(path=pathlib.Path(__file__).resolve().parent / "examples" / "keras.safetensors"):
    keras.utils.set_random_seed(1)
    model = build()
    model.compile(optimizer=keras.optimizers.Adam(0.003), metrics=["accuracy"],
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*read("train"), batch_size=128, epochs=_EPOCHS, verbose=2)
    print("test: loss %.4f, accuracy %.4f" % tuple(model.evaluate(*read("t10k"), verbose=0)))
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        variables = tf.saved_model.load(folder).variables
        save_file({v.name.removesuffix(":0"): v.numpy() for v in variables}, str(path))


main(*sys.argv[1:])
