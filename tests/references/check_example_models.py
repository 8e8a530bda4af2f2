#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that TensorFlow runs what `fashion_mnist` saves and gives the same logits.

Usage: check_example_models.py FASHION_MNIST MIRRORFLOW [IMAGES]

Trains each model for some steps on one replica, runs the saved graph and variables on the first
IMAGES test images with `mirrorflow run` (on 1, 2 and 4 replicas) and with TensorFlow, and compares
the logits: two runs on one replica must agree bit for bit, all others to 1e-4. Does the same with a
graph of 2 replicas (`mirrorflow inspect --replicas=2 --output`). Run it by hand, because it needs
TensorFlow 2.21 and safetensors from PyPI, and Fashion-MNIST where Debian installs it.
"""
import gzip
import os
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from safetensors.numpy import load_file

STEPS = 20
TOLERANCE = 1e-4
IMAGES_FILE = "/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz"


def by_tensorflow(graph_file, variables_file, images):
    graph_def = tf.compat.v1.GraphDef()
    with open(graph_file, "rb") as file:
        graph_def.ParseFromString(file.read())
    values = load_file(variables_file)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session() as session:
            for op in graph.get_operations():
                if op.type != "VarHandleOp":
                    continue
                value = tf.constant(values[op.get_attr("shared_name").decode()])
                session.run(tf.raw_ops.AssignVariableOp(resource=op.outputs[0], value=value))
            return session.run("logits:0", {"images:0": images})


def main(fashion_mnist, mirrorflow, count=1000):
    with gzip.open(IMAGES_FILE) as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28, 1)
    images = (pixels[:int(count)] / np.float32(255)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for model in "mlp", "cnn", "resnet":
            subprocess.run([fashion_mnist, f"--model={model}", "--replicas=1", f"--steps={STEPS}",
                            "--log_format=off", "--save_graph=g.pb",
                            "--save_variables=v.safetensors"], check=True)
            fed = images.reshape(len(images), -1) if model == "mlp" else images
            np.save("images.npy", fed)
            subprocess.run([mirrorflow, "inspect", "g.pb", "--fetch=logits", "--replicas=2",
                            f"--global_batch_size={len(images)}", "--output=two.pb"], check=True)
            logits = []
            for graph, *flags in (["g.pb", "--replicas=1"], ["g.pb", "--replicas=1"],
                                  ["g.pb", "--replicas=2"], ["g.pb", "--replicas=4"], ["two.pb"]):
                subprocess.run([mirrorflow, "run", f"--graph={graph}", "--variables=v.safetensors",
                                "--feed=images=images.npy", "--fetch=logits=logits.npy", *flags],
                               check=True)
                logits.append(np.load("logits.npy"))
            assert logits[0].tobytes() == logits[1].tobytes(), "two runs differ"
            for graph in "g.pb", "two.pb":
                logits.append(by_tensorflow(graph, "v.safetensors", fed))
            apart = [float(abs(other - logits[0]).max()) for other in logits[2:]]
            print(f"{model}: logits up to {abs(logits[0]).max():.2f}; apart: two replicas {apart[0]:.1e}, "
                  f"four {apart[1]:.1e}, two written out {apart[2]:.1e}, TensorFlow {apart[3]:.1e}, "
                  f"TensorFlow on those written out {apart[4]:.1e}")
            assert max(apart) <= TOLERANCE


main(*[os.path.abspath(path) for path in sys.argv[1:3]], *sys.argv[3:])
