# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: the pruned concrete function of the graph, with static shapes, compiled by XLA or not,
whichever is faster. The setting is `xla=on` or `xla=off`."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
# As in serving_tensorflow_peer.py: otherwise XLA spreads small ops over a thread pool.
os.environ["XLA_FLAGS"] = "--xla_cpu_enable_concurrency_optimized_scheduler=false"

import inference  # before other libraries, because it sets the cores

import tensorflow as tf

import peer
import tensorflow_graph

tf.config.threading.set_intra_op_parallelism_threads(peer.LOCAL_REPLICAS)
tf.config.threading.set_inter_op_parallelism_threads(1)


def main():
    case = inference.case_of_arguments()
    step = tensorflow_graph.Step(case)
    feeds = [tf.constant(value) for value in case.feeds.values()]
    compiled = tf.function(lambda *arguments: step(*arguments), jit_compile=True)
    # Calls of a concrete function have less overhead.
    compiled = compiled.get_concrete_function(*map(tf.TensorSpec.from_tensor, feeds))
    seconds = {}
    for setting, function in ("xla=off", step), ("xla=on", compiled):
        peer.say("timing", setting)
        try:
            seconds[setting] = inference.seconds_per_call(lambda: function(*feeds)), function
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
            if function is step:
                raise
            # XLA cannot compile the graph.
    setting = min(seconds, key=lambda each: seconds[each][0])
    function = seconds[setting][1]
    step.reset()
    number = tf.constant(1.0)
    negate = tf.function(lambda x: -x).get_concrete_function(tf.TensorSpec.from_tensor(number))
    inference.talk(case, tf.__version__, setting, lambda: function(*feeds),
                   lambda: negate(number))


main()
