# SPDX-License-Identifier: Apache-2.0
"""Reads, assignments and optimizer updates of resource variables."""

import numpy as np

from case import Variable, case
from literals import NUMPY_TYPES
from tensors import ALL, FLOATING, INDEX, NUMERIC, sample, tensor

_SHAPES = ([2, 3], [17], [], [0, 3])


def _assignments(dtype):
    for shape in _SHAPES:
        variable, value = Variable(sample(dtype, shape)), sample(dtype, shape, seed=1)
        yield case("ReadVariableOp", variable, dtype=NUMPY_TYPES[dtype])
        yield case("AssignVariableOp", variable, value)
        if dtype in NUMERIC:
            yield case("AssignAddVariableOp", variable, value)
            yield case("AssignSubVariableOp", variable, value)


def _gradient_descent(dtype, shape):
    gradient = sample(dtype, shape, seed=1)
    variable = Variable(sample(dtype, shape))
    yield case("ResourceApplyGradientDescent", variable, tensor(dtype, 0.1), gradient)


def _momentum(dtype, shape, op="ResourceApplyMomentum"):
    gradient = sample(dtype, shape, seed=1)
    for use_nesterov in (False, True):
        for learning_rate, momentum in ((0.1, 0.9), (0.5, 0)):
            yield case(
                op,
                Variable(sample(dtype, shape)),
                Variable(sample(dtype, shape, seed=2)),
                tensor(dtype, learning_rate),
                gradient,
                tensor(dtype, momentum),
                use_nesterov=use_nesterov,
            )


def _adagrad(dtype, shape):
    gradient = sample(dtype, shape, seed=1)
    for version, epsilons in (("", ()), ("V2", (0.5,))):
        for update_slots in (True, False):
            yield case(
                f"ResourceApplyAdagrad{version}",
                Variable(sample(dtype, shape)),
                Variable(sample(dtype, shape, seed=2, low=0.1, high=2)),
                tensor(dtype, 0.1),
                *(tensor(dtype, epsilon) for epsilon in epsilons),
                gradient,
                update_slots=update_slots,
            )


def _rms_prop(dtype, shape):
    gradient = sample(dtype, shape, seed=1)
    # Learning rate, rho, momentum, epsilon.
    for scalars in ((0.1, 0.9, 0, 0.01), (0.05, 0.5, 0.8, 1)):
        yield case(
            "ResourceApplyRMSProp",
            Variable(sample(dtype, shape)),
            Variable(sample(dtype, shape, seed=2, low=0.1, high=2)),
            Variable(sample(dtype, shape, seed=3)),
            *(tensor(dtype, scalar) for scalar in scalars),
            gradient,
        )


def _keras_momentum(dtype, shape):
    yield from _momentum(dtype, shape, "ResourceApplyKerasMomentum")


def _adam(dtype, shape):
    """Yields the first update, with slots of zeros, and the third update."""
    gradient = sample(dtype, shape, seed=1)
    empty = np.zeros_like(gradient)
    moments = (sample(dtype, shape, seed=2), sample(dtype, shape, seed=3, low=0.01, high=2))
    beta1, beta2, learning_rate, epsilon = 0.9, 0.999, 0.01, 1e-7
    for use_nesterov in (False, True):
        for step, (mean, square) in ((1, (empty, empty)), (3, moments)):
            scalars = (beta1**step, beta2**step, learning_rate, beta1, beta2, epsilon)
            yield case(
                "ResourceApplyAdam",
                Variable(sample(dtype, shape)),
                Variable(mean),
                Variable(square),
                *(tensor(dtype, scalar) for scalar in scalars),
                gradient,
                use_nesterov=use_nesterov,
            )


_UPDATES = (_gradient_descent, _momentum, _keras_momentum, _adagrad, _rms_prop, _adam)


def _shapes():
    for shape in (*_SHAPES, [0, 2]):
        for out_type in INDEX:
            yield case("VariableShape", Variable(sample("float", shape)),
                       out_type=NUMPY_TYPES[out_type])


def cases():
    """Yields every shape and type of each op."""
    yield from _shapes()
    for dtype in ALL:
        yield from _assignments(dtype)
    for dtype in FLOATING:
        for shape in _SHAPES:
            for update in _UPDATES:
                yield from update(dtype, shape)
