# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: one tf.function a step; one intra-op thread a replica; MirroredStrategy over logical
CPUs, gradients reduced together."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import peer  # before the others: it says on which cores

import tensorflow as tf


def logits_of(layers, x):
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


def main():
    case = peer.case_of_arguments()
    tf.config.threading.set_intra_op_parallelism_threads(1 if case.replicas == 1 else case.replicas)
    tf.config.threading.set_inter_op_parallelism_threads(1 if case.replicas == 1 else 0)
    if case.replicas > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * case.replicas)
        strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(case.replicas)])
    else:
        strategy = tf.distribute.get_strategy()
    with strategy.scope():
        layers = [(tf.Variable(kernel), tf.Variable(bias)) for kernel, bias in case.layers]
    variables = [variable for layer in layers for variable in layer]

    def update(distribution, *gradients):
        for variable, gradient in zip(variables, gradients):
            distribution.extended.update(
                variable, lambda v, g: v.assign_sub(peer.LEARNING_RATE * g), (gradient,))

    def replica_step(inputs, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels,
                                                                    logits_of(layers, inputs))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, variables)
        if case.replicas == 1:
            for variable, gradient in zip(variables, gradients):
                variable.assign_sub(peer.LEARNING_RATE * gradient)
            return loss
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        context.merge_call(update, gradients)
        return loss

    if case.replicas == 1:
        feeds = (tf.constant(case.inputs), tf.constant(case.labels))
        step = tf.function(lambda: replica_step(*feeds))
    else:
        feeds = tuple(
            strategy.experimental_distribute_values_from_function(
                lambda context, k=k: tf.constant(
                    case.rows_of(context.replica_id_in_sync_group)[k]))
            for k in range(2))

        @tf.function
        def step():
            losses = strategy.run(replica_step, feeds)
            return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    def run(steps):
        loss = None
        for _ in range(steps):
            loss = step()
        return loss.numpy()

    peer.talk(tf.__version__, run)


main()
