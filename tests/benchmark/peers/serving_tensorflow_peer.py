# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: one concrete function of a fixed shape, compiled by XLA, with the weights as
constants. A request computes on the calling thread."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
# Otherwise XLA spreads the small ops of `lstm` over a thread pool, which makes a request 1.4 times
# slower.
os.environ["XLA_FLAGS"] = "--xla_cpu_enable_concurrency_optimized_scheduler=false"

import peer  # before other libraries, because it sets the cores

import tensorflow as tf

import serving
from tensorflow_models import model_of

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
case = peer.case_of_arguments()


def request_to(function):
    """Returns a function that calls the compiled `function` on the example."""
    example = tf.constant(case.inputs)
    compiled = tf.function(function, input_signature=[tf.TensorSpec.from_tensor(example)],
                           jit_compile=True).get_concrete_function()
    return lambda: compiled(example).numpy()


def model_request():
    # Create the constants inside the function: captured ones would become its arguments.
    return request_to(
        lambda x: model_of(case.model)([tf.constant(w) for w in case.weights], [], x))


def empty_call():
    return request_to(lambda x: -x)


if __name__ == "__main__":
    serving.talk(tf.__version__, model_request, empty_call)
