# SPDX-License-Identifier: Apache-2.0
"""JAX: one jitted step whose weights are donated. Uses one device only: with two host devices, JAX
aborts in its own all-reduce (jax 0.10.2)."""

import functools
import os

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
os.environ["JAX_PLATFORMS"] = "cpu"

import peer  # before other libraries, because it sets the cores

import jax
import jax.numpy as jnp
from jax import lax


def conv(x, kernel, strides, padding):
    return lax.conv_general_dilated(x, kernel, (strides, strides), padding,
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))


def feed_forward(weights, moving, x):
    layers = peer.pairs(weights)
    for i, (kernel, bias) in enumerate(layers):
        if kernel.ndim == 4:
            x = jax.nn.relu(conv(x, kernel, 1, "VALID") + bias)
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        else:
            x = x.reshape(len(x), -1) @ kernel + bias
            if i + 1 < len(layers):
                x = jax.nn.relu(x)
    return x, moving


def lstm(weights, moving, x):
    kernel, bias, last_kernel, last_bias = weights

    def cell(carry, now):
        output, state = carry
        i, f, new, o = jnp.split(jnp.concatenate([now, output], 1) @ kernel + bias, 4, 1)
        state = jax.nn.sigmoid(f) * state + jax.nn.sigmoid(i) * jnp.tanh(new)
        return (jax.nn.sigmoid(o) * jnp.tanh(state), state), None

    zeros = jnp.zeros_like(x[:, 0])
    # Run two steps per iteration; a single long graph takes 1.8 times as long.
    (output, _), _ = lax.scan(cell, (zeros, zeros), x.swapaxes(0, 1), unroll=2)
    return output @ last_kernel + last_bias, moving


def normalised_convolution(weights, moving, moved):
    """Returns a function that takes the weights of a convolution and its normalisation from the
    iterators, and appends the new moving statistics to `moved`."""

    def conv_norm(x, strides):
        x = conv(x, next(weights), strides, "SAME")
        mean = x.mean((0, 1, 2))
        variance = ((x - mean)**2).mean((0, 1, 2))
        rows = x.size // x.shape[3]
        for value in mean, variance * (rows / (rows - 1)):
            moved.append(next(moving) * (1 - peer.MOVING_FACTOR) + value * peer.MOVING_FACTOR)
        return (x - mean) * (lax.rsqrt(variance + peer.EPSILON) * next(weights)) + next(weights)

    return conv_norm


def resnet(weights, moving, x):
    weights, moved = iter(weights), []
    conv_norm = normalised_convolution(weights, iter(moving), moved)
    x = jax.nn.relu(conv_norm(x, 1))
    for strides in peer.RESNET_STRIDES:
        y = conv_norm(jax.nn.relu(conv_norm(x, strides)), 1)
        added = (y.shape[3] - x.shape[3]) // 2
        x = jnp.pad(x[:, ::strides, ::strides], [(0, 0)] * 3 + [(added, added)])
        x = jax.nn.relu(y + x)
    return x.mean((1, 2)) @ next(weights) + next(weights), moved


def resnet50(weights, moving, x):
    weights, moved = iter(weights), []
    conv_norm = normalised_convolution(weights, iter(moving), moved)
    x = jax.nn.relu(conv_norm(x, 2))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for strides, projects in peer.RESNET50_BLOCKS:
        y = jax.nn.relu(conv_norm(x, 1))
        y = conv_norm(jax.nn.relu(conv_norm(y, strides)), 1)
        x = jax.nn.relu(y + (conv_norm(x, strides) if projects else x))
    return x.mean((1, 2)) @ next(weights) + next(weights), moved


def transformer(blocks, heads, weights, moving, tokens):
    weights = iter(weights)

    def normalised(x):
        x = x - x.mean(-1, keepdims=True)
        scale = lax.rsqrt((x * x).mean(-1, keepdims=True) + peer.EPSILON)
        return x * scale * next(weights) + next(weights)

    def dense(x):
        return x @ next(weights) + next(weights)

    def attention(x):
        q, k, v = (dense(x).reshape(*tokens.shape, heads, -1) for _ in range(3))
        return dense(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape))

    embeddings, places = next(weights), next(weights)
    x = embeddings[tokens] + places
    for _ in range(blocks):
        x = x + attention(normalised(x))
        x = x + dense(jax.nn.gelu(dense(normalised(x)), approximate=False))
    return normalised(x) @ embeddings.T, moving


MODELS = {"lstm": lstm, "resnet": resnet, "resnet50": resnet50, "resnet50_64": resnet50} | {
    name: functools.partial(transformer, *sizes) for name, sizes in peer.TRANSFORMERS.items()}


def loss_of(weights, moving, model, inputs, labels):
    logits, moved = MODELS.get(model, feed_forward)(weights, moving, inputs)
    logs = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.take_along_axis(logs, labels[..., None], axis=-1)), moved


@functools.partial(jax.jit, static_argnums=2, donate_argnums=(0, 1))
def train(weights, moving, model, inputs, labels):
    (loss, moved), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights, moving, model,
                                                                         inputs, labels)
    return [w - peer.LEARNING_RATE * g for w, g in zip(weights, gradients)], moved, loss


@jax.jit
def chain(x):
    for _ in range(peer.CHAIN_LENGTH):
        x = jnp.sin(x)
    return x


def main():
    case = peer.case_of_arguments()
    if case.replicas != 1:
        raise SystemExit("jax: only one replica is supported")
    weights, moving, inputs, labels = jax.tree.map(
        jnp.asarray, (case.weights, case.moving, case.inputs, case.labels))

    def run(steps):
        nonlocal weights, moving
        loss = None
        for _ in range(steps):
            if case.model == "chain":
                loss = chain(inputs)
            else:
                weights, moving, loss = train(weights, moving, case.model, inputs, labels)
        return loss.block_until_ready()

    peer.talk(jax.__version__, run)


main()
