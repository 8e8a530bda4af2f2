# SPDX-License-Identifier: Apache-2.0
"""The models of peer.Case in TensorFlow. `weights` and `moving` come from the case, as variables or
constants."""

import functools

import peer  # before other libraries, because it sets the cores

import tensorflow as tf


def feed_forward(weights, moving, x):
    layers = peer.pairs(weights)
    for i, (kernel, bias) in enumerate(layers):
        if len(kernel.shape) == 4:
            x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "VALID"), bias))
            x = tf.nn.max_pool2d(x, 2, 2, "VALID")
            continue
        if len(x.shape) == 4:
            x = tf.reshape(x, [x.shape[0], -1])
        x = tf.nn.bias_add(tf.matmul(x, kernel), bias)
        if i + 1 < len(layers):
            x = tf.nn.relu(x)
    return x


def lstm(weights, moving, x):
    kernel, bias, last_kernel, last_bias = weights
    output = state = tf.zeros_like(x[:, 0])
    for now in tf.unstack(x, axis=1):
        gates = tf.nn.bias_add(tf.matmul(tf.concat([now, output], 1), kernel), bias)
        i, f, new, o = tf.split(gates, 4, 1)
        state = tf.sigmoid(f) * state + tf.sigmoid(i) * tf.tanh(new)
        output = tf.sigmoid(o) * tf.tanh(state)
    return tf.nn.bias_add(tf.matmul(output, last_kernel), last_bias)


def batch_norm(x, gamma, beta, mean, variance):
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        y, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=gamma, offset=beta, mean=mean, variance=variance, epsilon=peer.EPSILON,
            exponential_avg_factor=peer.MOVING_FACTOR)
        mean.assign(new_mean)
        variance.assign(new_variance)
        return y
    # The statistics cover all replicas, as in Keras with synchronized=True.
    moments = tf.stack([tf.reduce_mean(x, [0, 1, 2]), tf.reduce_mean(x * x, [0, 1, 2])])
    moments = context.all_reduce(tf.distribute.ReduceOp.MEAN, moments)
    batch_mean, batch_variance = moments[0], moments[1] - moments[0] * moments[0]
    rows = x.shape[0] * x.shape[1] * x.shape[2] * context.num_replicas_in_sync
    for variable, value in (mean, batch_mean), (variance, batch_variance * (rows / (rows - 1))):
        variable.assign(variable * (1 - peer.MOVING_FACTOR) + value * peer.MOVING_FACTOR)
    return tf.nn.batch_normalization(x, batch_mean, batch_variance, beta, gamma, peer.EPSILON)


def normalised_convolution(weights, moving):
    """Returns a function that takes the weights of a convolution and its normalisation from the
    iterators."""

    def conv_norm(x, strides):
        x = tf.nn.conv2d(x, next(weights), strides, "SAME")
        return batch_norm(x, next(weights), next(weights), next(moving), next(moving))

    return conv_norm


def resnet(weights, moving, x):
    weights = iter(weights)
    conv_norm = normalised_convolution(weights, iter(moving))
    x = tf.nn.relu(conv_norm(x, 1))
    for strides in peer.RESNET_STRIDES:
        y = conv_norm(tf.nn.relu(conv_norm(x, strides)), 1)
        if strides > 1:
            added = (y.shape[3] - x.shape[3]) // 2
            x = tf.pad(x[:, ::strides, ::strides], [(0, 0)] * 3 + [(added, added)])
        x = tf.nn.relu(y + x)
    return tf.nn.bias_add(tf.matmul(tf.reduce_mean(x, [1, 2]), next(weights)), next(weights))


def resnet50(weights, moving, x):
    weights = iter(weights)
    conv_norm = normalised_convolution(weights, iter(moving))
    x = tf.nn.max_pool2d(tf.nn.relu(conv_norm(x, 2)), 3, 2, "SAME")
    for strides, projects in peer.RESNET50_BLOCKS:
        y = tf.nn.relu(conv_norm(x, 1))
        y = conv_norm(tf.nn.relu(conv_norm(y, strides)), 1)
        x = tf.nn.relu(y + (conv_norm(x, strides) if projects else x))
    return tf.nn.bias_add(tf.matmul(tf.reduce_mean(x, [1, 2]), next(weights)), next(weights))


def transformer(blocks, heads, weights, moving, tokens):
    weights = iter(weights)
    rows, positions = tokens.shape

    def normalised(x):
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        gamma, beta = next(weights), next(weights)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, peer.EPSILON)

    def dense(x):  # on rows, because products of matrices are faster than those of batches
        return tf.nn.bias_add(tf.matmul(x, next(weights)), next(weights))

    def attention(x):
        q, k, v = (tf.transpose(tf.reshape(dense(x), [rows, positions, heads, -1]),
                                [0, 2, 1, 3]) for _ in range(3))
        seen = tf.matmul(q, k, transpose_b=True) * q.shape[-1]**-0.5
        past = tf.linalg.band_part(tf.ones([positions, positions], tf.bool), -1, 0)
        seen = tf.matmul(tf.nn.softmax(tf.where(past, seen, seen.dtype.min)), v)
        return dense(tf.reshape(tf.transpose(seen, [0, 2, 1, 3]), [rows * positions, -1]))

    embeddings, places = next(weights), next(weights)
    x = tf.reshape(tf.gather(embeddings, tokens) + places, [rows * positions, -1])
    for _ in range(blocks):
        x += attention(normalised(x))
        x += dense(tf.nn.gelu(dense(normalised(x))))
    logits = tf.matmul(normalised(x), embeddings, transpose_b=True)
    return tf.reshape(logits, [rows, positions, -1])


def model_of(name):
    """Returns the function model(weights, moving, x), which computes the logits."""
    if name in peer.TRANSFORMERS:
        return functools.partial(transformer, *peer.TRANSFORMERS[name])
    models = {"lstm": lstm, "resnet": resnet, "resnet50": resnet50, "resnet50_64": resnet50}
    return models.get(name, feed_forward)
