# SPDX-License-Identifier: Apache-2.0
"""Writes optimizers/keras.npz: steps of Keras' optimizers on three linear regressions; and
optimizers/schedules.npz: the learning rates of Keras' schedules in steps 0, 1, …

`x` [steps,rows,3] and `y` [steps,rows,2] are the batches, `start/NAME` the initial values of the
variables b [2], w [3,2] (tall), u [3,4] (wide) and f [3,1,2,2]. For each case, `CASE/NAME` has the
values of the variable after each step and, with use_ema, `CASE/NAME/average` those of its average.
../train/optimizers/keras_steps_test.cc has the same loss and the same table of cases.
"""

import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # TensorFlow's own kernels vary less between machines

import keras
import numpy as np
import tensorflow as tf
from keras import optimizers

_STEPS, _ROWS = 6, 5
_RATES = 16
_FILE = pathlib.Path(__file__).parent / "optimizers" / "keras.npz"


def _without_decay_of_b(optimizer):
    # TensorFlow calls the variable b:0.
    optimizer.exclude_from_weight_decay(var_names=["^b(:0)?$"])
    return optimizer


_CASES = {
    "sgd": lambda: optimizers.SGD(0.05),
    "momentum": lambda: optimizers.SGD(0.05, momentum=0.8),
    "nesterov": lambda: optimizers.SGD(0.05, momentum=0.8, nesterov=True),
    "adam": lambda: optimizers.Adam(0.1, beta_1=0.8, beta_2=0.95, epsilon=1e-3),
    "amsgrad": lambda: optimizers.Adam(0.1, 0.7, 0.5, 1e-3, amsgrad=True),
    "adamw": lambda: optimizers.AdamW(
        0.1, weight_decay=0.3, beta_1=0.8, beta_2=0.95, epsilon=1e-3
    ),
    "adamw_amsgrad": lambda: optimizers.AdamW(0.1, 0.3, 0.7, 0.5, 1e-3, amsgrad=True),
    "rmsprop": lambda: optimizers.RMSprop(0.05, rho=0.7, epsilon=1e-2),
    "rmsprop_momentum": lambda: optimizers.RMSprop(0.05, rho=0.7, momentum=0.6, epsilon=1e-2),
    "rmsprop_centered": lambda: optimizers.RMSprop(0.05, rho=0.7, epsilon=1e-2, centered=True),
    "rmsprop_centered_momentum": lambda: optimizers.RMSprop(
        0.05, rho=0.7, momentum=0.6, epsilon=1e-2, centered=True
    ),
    "adagrad": lambda: optimizers.Adagrad(0.2, initial_accumulator_value=0.3, epsilon=1e-7),
    "adadelta": lambda: optimizers.Adadelta(2.0, rho=0.8, epsilon=1e-3),
    "adadelta_default": lambda: optimizers.Adadelta(100.0),
    "adamax": lambda: optimizers.Adamax(0.1, beta_1=0.8, beta_2=0.7, epsilon=1e-2),
    "adamax_default": lambda: optimizers.Adamax(0.1),
    "nadam": lambda: optimizers.Nadam(0.1, beta_1=0.8, beta_2=0.95, epsilon=1e-2),
    "nadam_default": lambda: optimizers.Nadam(0.1),
    "ftrl": lambda: optimizers.Ftrl(
        0.2,
        learning_rate_power=-0.7,
        initial_accumulator_value=0.3,
        l1_regularization_strength=0.3,
        l2_regularization_strength=0.2,
        l2_shrinkage_regularization_strength=0.1,
        beta=0.4,
    ),
    "ftrl_default": lambda: optimizers.Ftrl(0.1),
    "lion": lambda: optimizers.Lion(0.05, beta_1=0.6, beta_2=0.7),
    "lion_default": lambda: optimizers.Lion(0.05),
    "lamb": lambda: optimizers.Lamb(0.1, beta_1=0.8, beta_2=0.95, epsilon=1e-2),
    "lamb_default": lambda: optimizers.Lamb(0.1),
    "adafactor": lambda: optimizers.Adafactor(
        0.6, beta_2_decay=-0.5, epsilon_1=1e-2, epsilon_2=0.5, clip_threshold=0.7
    ),
    "adafactor_default": lambda: optimizers.Adafactor(0.3),
    "muon": lambda: optimizers.Muon(
        0.1,
        adam_beta_1=0.8,
        adam_beta_2=0.95,
        adam_weight_decay=0.1,
        epsilon=1e-3,
        weight_decay=0.2,
        muon_a=3.0,
        muon_b=-4.0,
        muon_c=1.5,
        adam_lr_ratio=0.5,
        momentum=0.8,
        ns_steps=3,
        nesterov=False,
        rms_rate=None,
    ),
    "muon_default": lambda: optimizers.Muon(0.1),
    "muon_exclude": lambda: optimizers.Muon(0.1, exclude_layers=["^w$"]),
    # The limits are above some gradients and norms, and below others.
    "clipvalue": lambda: optimizers.SGD(0.05, clipvalue=0.8),
    "clipnorm": lambda: optimizers.SGD(0.05, clipnorm=1.5),
    "global_clipnorm": lambda: optimizers.SGD(0.05, global_clipnorm=3.0),
    "weight_decay": lambda: optimizers.SGD(0.05, momentum=0.8, weight_decay=0.4),
    "lion_weight_decay": lambda: _without_decay_of_b(optimizers.Lion(0.05, weight_decay=0.4)),
    "lamb_weight_decay": lambda: optimizers.Lamb(0.1, weight_decay=0.4),
    # Not Adam, because Keras also counts the steps without an update in its bias correction.
    "accumulation": lambda: optimizers.SGD(
        0.05, momentum=0.8, clipnorm=1.5, weight_decay=0.4, gradient_accumulation_steps=2
    ),
    "accumulation_rmsprop": lambda: optimizers.RMSprop(
        0.05, rho=0.7, epsilon=1e-2, gradient_accumulation_steps=3
    ),
    "ema": lambda: optimizers.SGD(0.05, use_ema=True, ema_momentum=0.7),
    "ema_overwrite": lambda: optimizers.Adam(
        0.1, use_ema=True, ema_momentum=0.6, ema_overwrite_frequency=2
    ),
}

# ../train/optimizers/keras_schedules_test.cc has the same table.
_SCHEDULES = {
    "piecewise_constant": lambda s: s.PiecewiseConstantDecay([2, 5], [1.0, 0.5, 0.125]),
    "cosine": lambda s: s.CosineDecay(0.8, 4),
    "cosine_alpha": lambda s: s.CosineDecay(0.8, 10, alpha=0.25),
    "cosine_warmup": lambda s: s.CosineDecay(
        0.1, 4, alpha=0.25, warmup_target=0.8, warmup_steps=3
    ),
    "exponential": lambda s: s.ExponentialDecay(0.8, 3, 0.5),
    "exponential_default": lambda s: s.ExponentialDecay(0.8, 3, 0.96),
    "exponential_staircase": lambda s: s.ExponentialDecay(0.8, 3, 0.5, staircase=True),
    "inverse_time": lambda s: s.InverseTimeDecay(0.8, 3, 0.5),
    "inverse_time_staircase": lambda s: s.InverseTimeDecay(0.8, 3, 0.5, staircase=True),
    "polynomial": lambda s: s.PolynomialDecay(0.8, 4),
    "polynomial_power": lambda s: s.PolynomialDecay(0.8, 4, 0.2, power=2.0),
    "polynomial_cycle": lambda s: s.PolynomialDecay(0.8, 3, 0.2, power=0.5, cycle=True),
    "cosine_restarts": lambda s: s.CosineDecayRestarts(0.8, 2),
    "cosine_restarts_lower": lambda s: s.CosineDecayRestarts(0.8, 2, m_mul=0.5, alpha=0.25),
    "cosine_restarts_equal": lambda s: s.CosineDecayRestarts(0.8, 3, t_mul=1.0, m_mul=0.5),
}


def _rates(schedule):
    return np.float32([float(schedule(step)) for step in range(_RATES)])


def _problem():
    random = np.random.default_rng(1)
    normal = lambda *shape: np.float32(random.normal(size=shape).round(2))
    return {
        "x": normal(_STEPS, _ROWS, 3),
        "y": normal(_STEPS, _ROWS, 2),
        "start/b": np.float32([0.1, -0.2]),
        "start/w": normal(3, 2),
        "start/u": normal(3, 4),
        "start/f": normal(3, 1, 2, 2),
    }


def _loss(x, y, b, w, u, f):
    z = tf.concat([y, -y], 1)
    return (
        tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
        + tf.reduce_mean(tf.square(tf.matmul(x, u) - z))
        + tf.reduce_mean(tf.square(tf.matmul(x, tf.reshape(f, [3, 4])) + z))
    )


def _train(problem, optimizer):
    """Returns the variables, and their averages if they have any, after each step."""
    variables = [keras.Variable(problem[f"start/{name}"], name=name) for name in "bwuf"]
    optimizer.build(variables)
    history = {}
    norms = []
    for x, y in zip(problem["x"], problem["y"]):
        with tf.GradientTape() as tape:
            loss = _loss(x, y, *(v.value for v in variables))
        gradients = tape.gradient(loss, [v.value for v in variables])
        norms.append([float(tf.norm(g)) for g in gradients])
        optimizer.apply(gradients, variables)
        for i, variable in enumerate(variables):
            history.setdefault(variable.name, []).append(variable.numpy())
            if optimizer.use_ema:
                average = optimizer._model_variables_moving_average[i]
                history.setdefault(f"{variable.name}/average", []).append(average.numpy())
    return history, norms


def main():
    """Writes the files."""
    arrays = _problem()
    for name, make in _CASES.items():
        history, norms = _train(_problem(), make())
        if name == "sgd":
            print("norms of the gradients", np.round(norms, 2).tolist())
        for key, values in history.items():
            arrays[f"{name}/{key}"] = np.stack(values)
    _FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(_FILE, **arrays)
    rates = {name: _rates(make(optimizers.schedules)) for name, make in _SCHEDULES.items()}
    np.savez_compressed(_FILE.with_name("schedules.npz"), **rates)


if __name__ == "__main__":
    main()
