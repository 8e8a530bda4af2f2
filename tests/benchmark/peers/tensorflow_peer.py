# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: one tf.function per step and one intra-op thread per replica; MirroredStrategy over
logical CPUs, with the gradients reduced together. With several workers,
MultiWorkerMirroredStrategy over one process per worker, with one replica each."""

import json
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import peer  # before other libraries, because it sets the cores

if peer.WORKERS > 1:
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": peer.ADDRESSES},
                                          "task": {"type": "worker", "index": peer.WORKER}})

import tensorflow as tf

from tensorflow_models import model_of


@tf.function
def chain(x):
    for _ in range(peer.CHAIN_LENGTH):  # a Python loop, so it is unrolled
        x = tf.sin(x)
    return x


def main():
    case = peer.case_of_arguments()
    tf.config.threading.set_intra_op_parallelism_threads(peer.LOCAL_REPLICAS)
    tf.config.threading.set_inter_op_parallelism_threads(1 if case.replicas == 1 else 0)
    if peer.WORKERS > 1:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=tf.distribute.experimental.CommunicationImplementation.RING))
    elif case.replicas > 1:
        cpu = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * case.replicas)
        strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(case.replicas)])
    else:
        strategy = tf.distribute.get_strategy()
    with strategy.scope():
        variables = [tf.Variable(w) for w in case.weights]
        moving = [tf.Variable(m, trainable=False, aggregation=tf.VariableAggregation.MEAN)
                  for m in case.moving]
    model = model_of(case.model)

    def update(distribution, *gradients):
        for variable, gradient in zip(variables, gradients):
            distribution.extended.update(
                variable, lambda v, g: v.assign_sub(peer.LEARNING_RATE * g), (gradient,))

    def replica_step(inputs, labels):
        with tf.GradientTape() as tape:
            logits = model(variables, moving, inputs)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        gradients = tape.gradient(loss, variables)
        if case.replicas == 1:
            for variable, gradient in zip(variables, gradients):
                variable.assign_sub(peer.LEARNING_RATE * gradient)
            return loss
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        context.merge_call(update, gradients)
        return loss

    if case.model == "chain":
        number = tf.constant(case.inputs)
        step = lambda: chain(number)
    elif case.replicas == 1:
        feeds = (tf.constant(case.inputs), tf.constant(case.labels))
        # XLA makes models of only small ops two or three times as fast, and slows down the others.
        step = tf.function(lambda: replica_step(*feeds), jit_compile=case.model == "lstm")
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

    def agree(steps):
        if peer.WORKERS == 1:
            return steps
        counts = strategy.experimental_distribute_values_from_function(
            lambda _: tf.constant(steps if peer.WORKER == 0 else 0))
        return int(strategy.reduce(tf.distribute.ReduceOp.SUM, counts, axis=None))

    peer.talk(tf.__version__, run, agree)


main()
