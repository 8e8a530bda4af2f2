# SPDX-License-Identifier: Apache-2.0
"""JAX on a GPU: one jitted step whose state is donated. With bf16, each step casts float weights;
reductions, norms and losses stay in float."""

import functools
import os
import sys

# Do not reserve GPU memory, because other programs take turns with this one on the GPU.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
if "--device=cpu" in sys.argv:
    os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import gpu_peer

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
NORM_EPSILON, MOVING_FACTOR = 1e-5, 0.1


def conv(x, kernel, strides=1, padding="VALID"):
    return lax.conv_general_dilated(x, kernel.astype(x.dtype), (strides, strides), padding,
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"))


def dense(x, kernel, bias):
    return x @ kernel.astype(x.dtype) + bias.astype(x.dtype)


def max_pool(x, size, strides, padding):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, strides, strides, 1),
                             padding)


def feed_forward(weights, moving, x):
    for i, (kernel, bias) in enumerate(weights):
        if kernel.ndim == 4:
            x = max_pool(jax.nn.relu(conv(x, kernel) + bias.astype(x.dtype)), 2, 2, "VALID")
        else:
            x = dense(x.reshape(len(x), -1), kernel, bias)
            if i + 1 < len(weights):
                x = jax.nn.relu(x)
    return x, moving


def he_normal(random, shape):
    scale = np.sqrt(2 / np.prod(shape[:-1]))
    return jnp.asarray(random.standard_normal(shape, np.float32) * scale)


def make_resnet(random, stages):
    """Returns weights and moving statistics of each convolution, in the order of `resnet`."""
    weights, moving = [], []

    def conv_norm(size, a, b):
        weights.append((he_normal(random, (size, size, a, b)), jnp.ones(b), jnp.zeros(b)))
        moving.append((jnp.zeros(b), jnp.ones(b)))

    conv_norm(7, 3, 64)
    channels = 64
    for i, count in enumerate(stages):
        width, out = 64 << i, 256 << i
        for j in range(count):
            if j == 0:
                conv_norm(1, channels, out)
            conv_norm(1, channels, width)
            conv_norm(3, width, width)
            conv_norm(1, width, out)
            channels = out
    classes = gpu_peer.CLASSES["resnet50"]
    weights.append((he_normal(random, (channels, classes)), jnp.zeros(classes)))
    return weights, moving


def resnet(stages, weights, moving, x):
    weights, moving, moved = iter(weights), iter(moving), []

    def conv_norm(x, strides=1):
        kernel, gamma, beta = next(weights)
        size = kernel.shape[0]
        y = conv(x, kernel, strides, [(size // 2, size // 2)] * 2).astype(jnp.float32)
        mean, variance = y.mean((0, 1, 2)), y.var((0, 1, 2))
        moved.append(tuple(old * (1 - MOVING_FACTOR) + new * MOVING_FACTOR
                           for old, new in zip(next(moving), (mean, variance))))
        y = (y - mean) * (lax.rsqrt(variance + NORM_EPSILON) * gamma) + beta
        return y.astype(x.dtype)

    x = max_pool(jax.nn.relu(conv_norm(x, 2)), 3, 2, [(0, 0), (1, 1), (1, 1), (0, 0)])
    for i, count in enumerate(stages):
        for j in range(count):
            strides = 2 if i and not j else 1
            short = conv_norm(x, strides) if j == 0 else x
            y = jax.nn.relu(conv_norm(x))
            x = jax.nn.relu(conv_norm(jax.nn.relu(conv_norm(y, strides))) + short)
    return dense(x.mean((1, 2)), *next(weights)), moved


def make_gpt2(random, layers, width, heads, vocabulary, positions):
    def normal(*shape):
        return jnp.asarray(random.standard_normal(shape, np.float32) * 0.02)

    def linear(a, b):
        return normal(a, b), jnp.zeros(b)

    norm = (jnp.ones(width), jnp.zeros(width))
    blocks = [{"norm1": norm, "norm2": norm, "qkv": linear(width, 3 * width),
               "project": linear(width, width), "up": linear(width, 4 * width),
               "down": linear(4 * width, width)} for _ in range(layers)]
    return {"token": normal(vocabulary, width), "place": normal(positions, width),
            "blocks": blocks, "norm": norm}


def layer_norm(x, gamma, beta):
    y = x.astype(jnp.float32)
    y = y - y.mean(-1, keepdims=True)
    y = y * lax.rsqrt((y * y).mean(-1, keepdims=True) + NORM_EPSILON) * gamma + beta
    return y.astype(x.dtype)


def gpt2(heads, dtype, weights, moving, tokens):
    x = (weights["token"][tokens] + weights["place"]).astype(dtype)
    rows, positions, width = x.shape
    flash = dtype == jnp.bfloat16 and jax.default_backend() == "gpu"
    for w in weights["blocks"]:
        q, k, v = (t.reshape(rows, positions, heads, -1)
                   for t in jnp.split(dense(layer_norm(x, *w["norm1"]), *w["qkv"]), 3, 2))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True,
                                         implementation="cudnn" if flash else None)
        x = x + dense(y.reshape(rows, positions, width), *w["project"])
        y = jax.nn.gelu(dense(layer_norm(x, *w["norm2"]), *w["up"]), approximate=True)
        x = x + dense(y, *w["down"])
    return layer_norm(x, *weights["norm"]) @ weights["token"].T.astype(dtype), moving


def make_model(args, case, dtype):
    """Returns (forward, weights, moving statistics)."""
    random = np.random.default_rng(1)
    if args.language_model:
        heads = args.language_model[2]
        return functools.partial(gpt2, heads, dtype), make_gpt2(random, *args.language_model), []
    if args.model == "resnet50":
        weights, moving = make_resnet(random, args.resnet[0])
        return functools.partial(resnet, args.resnet[0]), weights, moving
    return feed_forward, jax.tree.map(jnp.asarray, case.pairs()), []


def sgd(momentum):
    def update(weights, state, gradients):
        if not momentum:
            return jax.tree.map(lambda w, g: w - gpu_peer.LEARNING_RATE * g, weights,
                                gradients), state
        state = jax.tree.map(lambda s, g: momentum * s + g, state, gradients)
        return jax.tree.map(lambda w, s: w - gpu_peer.LEARNING_RATE * s, weights, state), state

    return update


def adam(weights, state, gradients):
    first, second, step = state
    step = step + 1
    first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, second, gradients)
    rate = gpu_peer.ADAM_LEARNING_RATE * jnp.sqrt(1 - BETA2**step) / (1 - BETA1**step)
    weights = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + EPSILON), weights, first,
                           second)
    return weights, (first, second, step)


def make_optimizer(args, weights):
    zeros = functools.partial(jax.tree.map, jnp.zeros_like)
    if args.language_model:
        return adam, (zeros(weights), zeros(weights), jnp.zeros((), jnp.float32))
    momentum = gpu_peer.MOMENTUM if args.model == "resnet50" else 0
    return sgd(momentum), zeros(weights) if momentum else ()


def make_variant(name, args, case):
    dtype = jnp.bfloat16 if args.precision == "bf16" else jnp.float32
    forward, weights, moving = make_model(args, case, dtype)
    update, state = make_optimizer(args, weights)
    inputs, labels = jnp.asarray(case.inputs), jnp.asarray(case.labels)

    def loss_of(weights, moving, inputs, labels):
        x = inputs.astype(dtype) if inputs.dtype == jnp.float32 else inputs
        logits, moved = forward(weights, moving, x)
        logs = jax.nn.log_softmax(logits.astype(jnp.float32))
        return -jnp.take_along_axis(logs, labels[..., None], -1).mean(), moved

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2))
    def train(weights, state, moving, inputs, labels):
        (loss, moved), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights, moving,
                                                                             inputs, labels)
        weights, state = update(weights, state, gradients)
        return weights, state, moved, loss

    # Copy each tree, because a buffer that two names share cannot be donated twice.
    now = [jax.tree.map(jnp.array, tree) for tree in (weights, state, moving)]

    def run(steps):
        loss = None
        for _ in range(steps):
            *now[:], loss = train(*now, inputs, labels)
        return loss.item()  # waits

    def peak_memory():
        statistics = jax.devices()[0].memory_stats() or {}
        return statistics.get("peak_bytes_in_use")

    return gpu_peer.Variant(name, run, peak_memory)


def main():
    args = gpu_peer.arguments(["jit"])
    if args.device == "cuda" and jax.default_backend() != "gpu":
        raise SystemExit("jax: no GPU")
    precision = "float32" if args.precision == "fp32" else "tensorfloat32"
    jax.config.update("jax_default_matmul_precision", precision)
    case = gpu_peer.Case(args)
    gpu_peer.serve(args, "jax", jax.__version__, lambda name: make_variant(name, args, case))


if __name__ == "__main__":
    main()
