# SPDX-License-Identifier: Apache-2.0
"""Prints steps of Keras' optimizers on a linear regression as rows of a C++ table.

The rows are the weights [3,2] and the bias [2] after each of five steps on one batch. They are in
../train/optimizer_test.cc, which has the same batch and initial values.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # TensorFlow's own kernels vary less between machines

import numpy as np
import tensorflow as tf

_STEPS = 5
_X = np.float32([[1, 2, -1], [0.5, -1, 2], [-2, 1, 0], [3, 0.25, 1], [-1, -1, -1], [0, 2, 0.5]])
_Y = np.float32([[1, 0], [2, -1], [0.5, 0.5], [-1, 3], [0, 1], [-2, 2]])
_W = np.float32([[0.5, -0.5], [1, 0.25], [-1, 0.75]])
_B = np.float32([0.1, -0.2])


_OPTIMIZERS = {
    "sgd": lambda: tf.keras.optimizers.SGD(0.05),
    "momentum": lambda: tf.keras.optimizers.SGD(0.05, momentum=0.8),
    "nesterov": lambda: tf.keras.optimizers.SGD(0.05, momentum=0.8, nesterov=True),
    "adam": lambda: tf.keras.optimizers.Adam(0.1, beta_1=0.8, beta_2=0.95, epsilon=1e-3),
    "adamw": lambda: tf.keras.optimizers.AdamW(
        0.1, weight_decay=0.3, beta_1=0.8, beta_2=0.95, epsilon=1e-3
    ),
    "rmsprop": lambda: tf.keras.optimizers.RMSprop(0.05, rho=0.7, epsilon=1e-2),
    "rmsprop with momentum": lambda: tf.keras.optimizers.RMSprop(
        0.05, rho=0.7, momentum=0.6, epsilon=1e-2
    ),
    "adagrad": lambda: tf.keras.optimizers.Adagrad(
        0.2, initial_accumulator_value=0.3, epsilon=1e-7
    ),
    # The norm is above the limit in the first two steps and below it in the others.
    "sgd, norm clipped to 3.7": lambda: tf.keras.optimizers.SGD(0.05, global_clipnorm=3.7),
}


def _steps(optimizer):
    """Returns the loss before, the norm of all gradients in, and the variables after each step."""
    w, b = tf.Variable(_W), tf.Variable(_B)
    losses, norms, values = [], [], []
    for _ in range(_STEPS):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(_X, w) + b - _Y))
        gradients = tape.gradient(loss, [w, b])
        optimizer.apply_gradients(zip(gradients, [w, b]))
        losses.append(loss.numpy())
        norms.append(tf.linalg.global_norm(gradients).numpy())
        values.append(np.concatenate([w.numpy().ravel(), b.numpy()]))
    return losses, norms, values


def main():
    """Prints all rows."""
    for name, make in _OPTIMIZERS.items():
        losses, norms, values = _steps(make())
        print(f"// {name}: losses {losses}, norms {norms}")
        for row in values:
            print("{" + ", ".join(f"{v:.7g}f" for v in row) + "},")


if __name__ == "__main__":
    main()
