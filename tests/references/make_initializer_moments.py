# SPDX-License-Identifier: Apache-2.0
"""Writes initializers/keras.npz: the mean, standard deviation, minimum and maximum of the values that
Keras' initializers draw with 100 seeds. ../train/initializers_test.cc has the same table.
"""

import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np
from keras import initializers

_SEEDS = 100
_FILE = pathlib.Path(__file__).parent / "initializers" / "keras.npz"
_WEIGHT, _FILTER, _VECTOR = (100, 80), (3, 5, 8, 40), (5000,)

_CASES = {
    "random_normal": (initializers.RandomNormal, {}, _WEIGHT),
    "random_normal_moved": (initializers.RandomNormal, {"mean": -1.0, "stddev": 2.0}, _WEIGHT),
    "truncated_normal": (initializers.TruncatedNormal, {}, _WEIGHT),
    "truncated_normal_moved": (
        initializers.TruncatedNormal,
        {"mean": 3.0, "stddev": 2.0},
        _WEIGHT,
    ),
    "random_uniform": (initializers.RandomUniform, {}, _WEIGHT),
    "random_uniform_moved": (initializers.RandomUniform, {"minval": 1.0, "maxval": 4.0}, _WEIGHT),
    "variance_scaling": (initializers.VarianceScaling, {}, _WEIGHT),
    "variance_scaling_out": (
        initializers.VarianceScaling,
        {"scale": 3.0, "mode": "fan_out"},
        _WEIGHT,
    ),
    "variance_scaling_untruncated": (
        initializers.VarianceScaling,
        {"distribution": "untruncated_normal"},
        _WEIGHT,
    ),
    "glorot_normal": (initializers.GlorotNormal, {}, _WEIGHT),
    "glorot_normal_filter": (initializers.GlorotNormal, {}, _FILTER),
    "glorot_uniform": (initializers.GlorotUniform, {}, _WEIGHT),
    "glorot_uniform_filter": (initializers.GlorotUniform, {}, _FILTER),
    "glorot_uniform_vector": (initializers.GlorotUniform, {}, _VECTOR),
    "he_normal": (initializers.HeNormal, {}, _WEIGHT),
    "he_normal_filter": (initializers.HeNormal, {}, _FILTER),
    "he_uniform": (initializers.HeUniform, {}, _WEIGHT),
    "he_uniform_filter": (initializers.HeUniform, {}, _FILTER),
    "lecun_normal_filter": (initializers.LecunNormal, {}, _FILTER),
    "lecun_uniform_filter": (initializers.LecunUniform, {}, _FILTER),
    "orthogonal": (initializers.Orthogonal, {"gain": 0.5}, _WEIGHT),
    "orthogonal_filter": (initializers.Orthogonal, {}, _FILTER),
}


def main():
    """Writes the file."""
    moments = {}
    for name, (make, options, shape) in _CASES.items():
        values = np.stack([np.asarray(make(seed=i, **options)(shape)) for i in range(_SEEDS)])
        values = np.float64(values)
        moments[name] = np.float32([values.mean(), values.std(), values.min(), values.max()])
        print(name, moments[name])
    _FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(_FILE, **moments)


if __name__ == "__main__":
    main()
