# SPDX-License-Identifier: Apache-2.0
"""JAX: one jitted step whose weights are donated. One device only: with two host devices it aborts
in its own all-reduce (jax 0.10.2)."""

import os

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ["JAX_PLATFORMS"] = "cpu"

import peer  # before the others: it says on which cores

import jax
import jax.numpy as jnp
from jax import lax


def logits_of(layers, x):
    for i, (kernel, bias) in enumerate(layers):
        if kernel.ndim == 4:
            x = lax.conv_general_dilated(x, kernel, (1, 1), "VALID",
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x + bias)
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        else:
            x = x.reshape(len(x), -1) @ kernel + bias
            if i + 1 < len(layers):
                x = jax.nn.relu(x)
    return x


def loss_of(layers, inputs, labels):
    logs = jax.nn.log_softmax(logits_of(layers, inputs))
    return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=1))


@lambda step: jax.jit(step, donate_argnums=0)
def step(layers, inputs, labels):
    loss, gradients = jax.value_and_grad(loss_of)(layers, inputs, labels)
    return jax.tree.map(lambda w, g: w - peer.LEARNING_RATE * g, layers, gradients), loss


def main():
    case = peer.case_of_arguments()
    if case.replicas != 1:
        raise SystemExit("jax: one replica only")
    state = [jax.tree.map(jnp.asarray, case.layers)]
    inputs, labels = jnp.asarray(case.inputs), jnp.asarray(case.labels)

    def run(steps):
        loss = None
        for _ in range(steps):
            state[0], loss = step(state[0], inputs, labels)
        return loss.block_until_ready()

    peer.talk(jax.__version__, run)


main()
