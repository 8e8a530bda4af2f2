# SPDX-License-Identifier: Apache-2.0
"""Writes losses/losses.txt and losses/metrics.txt: what Keras' losses and metrics compute."""

import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

from literals import tensor_literal
from tensors import sample, tensor

_FOLDER = pathlib.Path(__file__).resolve().parent / "losses"
_DTYPES = ("float", "double")


def _write(name, cases):
    heading = "# By make_loss_cases.py; the format is in README.md.\n"
    (_FOLDER / name).write_text(heading + "\n" + "\n".join(cases))


def _case(name, attributes, lines):
    attributes = " ".join(f"{key}={_text(value)}" for key, value in attributes.items())
    lines = [f"{key} {tensor_literal(np.asarray(value))}" for key, value in lines]
    return "\n".join([f"case {name} {attributes}".rstrip(), *lines]) + "\n"


def _text(value):
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower()


def _given(**values):
    return [(key, value) for key, value in values.items() if value is not None]


# ---- operands --------------------------------------------------------------------------------


def _probabilities(dtype, shape, seed=0):
    return sample(dtype, shape, seed, low=0.02, high=0.98)


def _distributions(dtype, shape, seed=0):
    values = sample(dtype, shape, seed, low=0.1, high=1)
    return tensor(dtype, values / values.sum(-1, keepdims=True))


def _weights(shape, seed=9):
    return sample("float", shape, seed, low=0, high=2)


def _classes(dtype, shape, count, seed=5):
    return sample(dtype, shape, seed, low=0, high=count - 1)


def _one_hot(dtype, shape, seed=5):
    return tensor(dtype, np.eye(shape[-1])[_classes("int32", shape[:-1], shape[-1], seed)])


def _binary(dtype, shape, seed=6):
    return tensor(dtype, _classes("int32", shape, 2, seed))


# ---- losses ----------------------------------------------------------------------------------


def _loss(name, class_name, predictions, labels, weights=None, **options):
    """Returns a case with the loss and the gradient of the sum of its elements."""
    arguments = dict(options)
    if name == "sparse_softmax_cross_entropy":
        arguments["from_logits"] = True
    if arguments.get("reduction") == "none":
        arguments["reduction"] = None
    if class_name != "CTC":  # it computes as float
        arguments["dtype"] = str(predictions.dtype)
    loss = getattr(keras.losses, class_name)(**arguments)
    losses_rank = predictions.ndim - (2 if class_name == "CTC" else 1)
    given = weights
    if weights is not None:  # Keras needs explicit dimensions for those that it broadcasts
        given = weights.reshape(weights.shape + (1,) * (losses_rank - weights.ndim))
    x = tf.constant(predictions)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loss(labels, x, sample_weight=given)
    lines = _given(
        predictions=predictions,
        labels=labels,
        weights=weights,
        loss=value.numpy(),
        gradient=tape.gradient(value, x).numpy(),
    )
    return _case(name, options, lines)


_REGRESSION = {
    "mean_squared_error": "MeanSquaredError",
    "mean_absolute_error": "MeanAbsoluteError",
    "mean_absolute_percentage_error": "MeanAbsolutePercentageError",
    "mean_squared_logarithmic_error": "MeanSquaredLogarithmicError",
    "huber": "Huber",
    "log_cosh": "LogCosh",
    "poisson": "Poisson",
    "cosine_similarity": "CosineSimilarity",
    "hinge": "Hinge",
    "squared_hinge": "SquaredHinge",
    "categorical_hinge": "CategoricalHinge",
    "kl_divergence": "KLDivergence",
}


def _operands(name, dtype, shape):
    """Returns predictions and labels in the domain of a loss."""
    if name in ("hinge", "squared_hinge"):
        return sample(dtype, shape), 2 * _binary(dtype, shape) - 1
    if name == "categorical_hinge":
        return sample(dtype, shape), _one_hot(dtype, shape)
    if name == "kl_divergence":
        return _distributions(dtype, shape), _distributions(dtype, shape, 1)
    if name in ("poisson", "mean_squared_logarithmic_error"):
        return sample(dtype, shape, low=0.1, high=3), sample(dtype, shape, 1, low=0, high=4)
    return sample(dtype, shape), sample(dtype, shape, 1)


def _regressions():
    for name, class_name in _REGRESSION.items():
        by_rows = name in ("cosine_similarity", "categorical_hinge", "kl_divergence")
        for dtype in _DTYPES:
            for shape in ([4, 3], [2, 3, 4], [1, 2]) if by_rows else ([4, 3], [2, 3, 4], [5]):
                yield _loss(name, class_name, *_operands(name, dtype, shape))
        operands = _operands(name, "float", [4, 3])
        weights = _weights([4])
        yield _loss(name, class_name, *operands, weights)
        yield _loss(name, class_name, *operands, weights, reduction="sum")
        yield _loss(name, class_name, *operands, weights, reduction="none")
        operands = _operands(name, "float", [4, 2, 3])
        yield _loss(name, class_name, *operands, _weights([4, 2]))
        yield _loss(name, class_name, *operands, weights)
    for delta in (0.5, 2.0):
        yield _loss("huber", "Huber", *_operands("huber", "float", [6, 5]), delta=delta)
    # The boundaries between the two parts: errors of exactly delta, and of 0.
    edges = tensor("float", [[1, -1, 0, 1.5, -3]])
    yield _loss("huber", "Huber", edges, np.zeros_like(edges))
    large = tensor("float", [[90, -200, 0, 1e-3]])
    yield _loss("log_cosh", "LogCosh", large, np.zeros_like(large))
    percent = tensor("float", [[1, -2, 0.5]]), tensor("float", [[0, 4, -0.25]])
    yield _loss("mean_absolute_percentage_error", "MeanAbsolutePercentageError", *percent)
    negative = tensor("float", [[-1, 0.5, 0]]), tensor("float", [[1, -2, 0]])
    yield _loss("mean_squared_logarithmic_error", "MeanSquaredLogarithmicError", *negative)
    for name in ("hinge", "squared_hinge"):
        binary = sample("float", [4, 3]), _binary("int32", [4, 3])
        yield _loss(name, _REGRESSION[name], *binary)
    zero_and_one = tensor("float", [[0, 1, 0.5], [1, 0, 0]])
    yield _loss("kl_divergence", "KLDivergence", zero_and_one, zero_and_one[::-1].copy())


def _sparse():
    name, class_name = "sparse_softmax_cross_entropy", "SparseCategoricalCrossentropy"
    for dtype, integer in (("float", "int32"), ("double", "int64")):
        for shape in ([4, 3], [2, 3, 5], [2, 2, 2, 3], [5]):
            labels = _classes(integer, shape[:-1], shape[-1])
            if len(shape) > 1:
                yield _loss(name, class_name, sample(dtype, shape), labels)
    logits, labels = sample("float", [4, 3, 5]), _classes("int32", [4, 3], 5)
    for weights in (_weights([4, 3]), _weights([4])):
        for reduction in ("sum_over_batch_size", "sum", "none"):
            yield _loss(name, class_name, logits, labels, weights, reduction=reduction)
            yield _loss(
                name, class_name, logits, labels, weights, reduction=reduction, ignore_class=2
            )
    padded = np.where(labels == 1, -1, labels)
    yield _loss(name, class_name, logits, padded, ignore_class=-1)
    yield _loss(name, class_name, logits[:, 0], np.full([4], 3, np.int32), ignore_class=3)


def _categorical():
    for name, class_name in (
        ("categorical_crossentropy", "CategoricalCrossentropy"),
        ("categorical_focal_crossentropy", "CategoricalFocalCrossentropy"),
    ):
        for dtype in _DTYPES:
            for shape in ([4, 3], [2, 3, 4]):
                p, y = _distributions(dtype, shape), _one_hot(dtype, shape)
                x = sample(dtype, shape)
                yield _loss(name, class_name, p, y)
                yield _loss(name, class_name, x, y, from_logits=True)
                yield _loss(name, class_name, p, y, label_smoothing=0.1)
                yield _loss(name, class_name, x, y, from_logits=True, label_smoothing=0.25)
        p, x = _distributions("float", [4, 3]), sample("float", [4, 3])
        y, weights = _distributions("float", [4, 3], 1), _weights([4])
        yield _loss(name, class_name, 2 * p, y, weights)
        for reduction in ("sum", "none"):
            yield _loss(name, class_name, x, y, weights, from_logits=True, reduction=reduction)
        certain = tensor("float", [[0, 1, 0], [0.5, 0.5, 0]])
        yield _loss(name, class_name, certain, _one_hot("int32", [2, 3]))
        extreme = tensor("float", [[60, -60, 0], [-80, 0, 80]])
        yield _loss(name, class_name, extreme, _one_hot("float", [2, 3]), from_logits=True)
    for options in ({"alpha": 0.5, "gamma": 1.0}, {"gamma": 3.5}, {"gamma": 0.0}):
        yield _loss(name, class_name, p, y, **options)
        yield _loss(name, class_name, x, y, from_logits=True, **options)


def _binaries():
    for name, class_name in (
        ("binary_crossentropy", "BinaryCrossentropy"),
        ("binary_focal_crossentropy", "BinaryFocalCrossentropy"),
    ):
        for dtype in _DTYPES:
            for shape in ([4, 3], [5], [2, 3, 2]):
                p, y = _probabilities(dtype, shape), _binary(dtype, shape)
                x = sample(dtype, shape)
                yield _loss(name, class_name, p, y)
                yield _loss(name, class_name, x, y, from_logits=True)
                yield _loss(name, class_name, p, y, label_smoothing=0.1)
                yield _loss(name, class_name, x, y, from_logits=True, label_smoothing=0.25)
        p, x = _probabilities("float", [4, 3]), sample("float", [4, 3])
        y, weights = _binary("int32", [4, 3]), _weights([4])
        yield _loss(name, class_name, p, y, weights)
        for reduction in ("sum", "none"):
            yield _loss(name, class_name, x, y, weights, from_logits=True, reduction=reduction)
        certain = tensor("float", [[0, 1, 0, 1]])
        yield _loss(name, class_name, certain, tensor("float", [[0, 0, 1, 1]]))
        extreme = tensor("float", [[0, 90, -90, 200, -200, 40]])
        yield _loss(
            name, class_name, extreme, tensor("float", [[1, 0, 0, 1, 1, 1]]), from_logits=True
        )
    for options in (
        {"apply_class_balancing": True},
        {"apply_class_balancing": True, "alpha": 0.6, "gamma": 1.0},
        {"gamma": 3.5},
    ):
        yield _loss(name, class_name, p, y, **options)
        yield _loss(name, class_name, x, y, from_logits=True, **options)


def _ctcs():
    labels = tensor("int32", [[1, 2, 3], [4, 4, 0], [2, 0, 0], [0, 0, 0]])
    logits = sample("float", [4, 6, 5])
    yield _loss("ctc", "CTC", logits, labels)
    yield _loss("ctc", "CTC", logits, labels.astype(np.int64), _weights([4]))
    yield _loss("ctc", "CTC", logits, labels, _weights([4]), reduction="none")
    yield _loss("ctc", "CTC", logits, labels, reduction="sum")
    # Exactly as many steps as the labels need: three, with a blank between equal labels.
    yield _loss("ctc", "CTC", logits[:2, :3], labels[:2])
    yield _loss("ctc", "CTC", logits[:1, :1], labels[2:3, :1])
    long = sample("float", [2, 24, 6], low=-12, high=12)
    yield _loss("ctc", "CTC", long, _classes("int32", [2, 7], 5) + 1)


# ---- metrics ---------------------------------------------------------------------------------

_BATCHES = (4, 5, 2)


def _metric(name, metric, rows, weighted, **options):
    """Returns a case with the results after each of three batches, made by `rows(count, seed)`."""
    lines = []
    for seed, count in enumerate(_BATCHES):
        batch = rows(count, seed)
        weights = _weights([count], seed + 20) if weighted else None
        arguments = [batch["predictions"]]
        if "labels" in batch:
            arguments.insert(0, batch["labels"])
        # MeanIoU takes one weight per value.
        given = np.repeat(weights, 3) if weighted and name == "mean_io_u" else weights
        metric.update_state(*arguments, sample_weight=given)
        result = np.asarray(metric.result(), np.float32)
        lines += _given(**batch, weights=weights, result=result)
    return _case(name, options, lines)


def _both(name, class_name, rows, keras_options=None, **options):
    """Yields a case without weights and one with them."""
    arguments = dict(options)
    arguments.update(keras_options or {})
    for weighted in (False, True):
        metric = getattr(keras.metrics, class_name)(**arguments)
        yield _metric(name, metric, rows, weighted, **options)


def _values(shape):
    return lambda count, seed: {"predictions": sample("float", [count, *shape], seed)}


def _numbers(count, seed, shape=(3,)):
    return {
        "predictions": sample("float", [count, *shape], seed, low=0.1),
        "labels": sample("float", [count, *shape], seed + 10, low=0.1),
    }


def _scores(shape, integer="int32"):
    """Returns logits and classes."""
    return lambda count, seed: {
        "predictions": sample("float", [count, *shape], seed),
        "labels": _classes(integer, [count, *shape[:-1]], shape[-1], seed + 10),
    }


def _one_hot_scores(shape):
    return lambda count, seed: {
        "predictions": _probabilities("float", [count, *shape], seed),
        "labels": _one_hot("float", [count, *shape], seed + 10),
    }


def _coins(shape, label_type="int32"):
    return lambda count, seed: {
        "predictions": _probabilities("float", [count, *shape], seed),
        "labels": _binary(label_type, [count, *shape], seed + 10),
    }


def _ids(count, seed):
    return {
        "predictions": _classes("int32", [count, 3], 4, seed),
        "labels": _classes("int32", [count, 3], 4, seed + 10),
    }


def _means():
    for shape in ([], [3], [2, 3]):
        yield from _both("mean", "Mean", _values(shape))
    yield from _both("sum", "Sum", _values([]))
    for name, class_name in _REGRESSION.items():
        if name.startswith("mean") or name == "cosine_similarity":
            yield from _both(name, class_name, _numbers)
    yield from _both("root_mean_squared_error", "RootMeanSquaredError", _numbers)

    def deep(count, seed):
        return _numbers(count, seed, (2, 3))

    yield from _both("root_mean_squared_error", "RootMeanSquaredError", deep)
    yield from _both("mean_absolute_error", "MeanAbsoluteError", deep)


def _accuracies():
    for shape in ([4], [2, 4]):
        for integer in ("int32", "int64"):
            yield from _both(
                "sparse_categorical_accuracy", "SparseCategoricalAccuracy", _scores(shape, integer)
            )
    yield from _both("categorical_accuracy", "CategoricalAccuracy", _one_hot_scores([4]))
    for options in ({}, {"threshold": 0.3}):
        yield from _both("binary_accuracy", "BinaryAccuracy", _coins([3], "float"), **options)
    for options in ({"k": 1}, {"k": 2}, {"k": 3}, {}):
        name = "top_k_categorical_accuracy"
        yield from _both(name, "TopKCategoricalAccuracy", _one_hot_scores([7]), **options)
        yield from _both(
            "sparse_" + name, "SparseTopKCategoricalAccuracy", _scores([7]), **options
        )

    def ties(count, seed):
        batch = _scores([5])(count, seed)
        return {**batch, "predictions": np.round(batch["predictions"])}

    yield from _both("sparse_" + name, "SparseTopKCategoricalAccuracy", ties, k=2)


def _thresholds():
    for name, class_name in (("precision", "Precision"), ("recall", "Recall")):
        for shape in ([], [3]):
            yield from _both(name, class_name, _coins(shape))
        yield from _both(name, class_name, _coins([3], "float"), thresholds=[0.2, 0.45, 0.9])
        yield from _both(name, class_name, _one_hot_scores([4]), top_k=2)
        yield from _both(name, class_name, _one_hot_scores([4]), class_id=1)
        yield from _both(name, class_name, _one_hot_scores([4]), top_k=3, class_id=2)
    for average in ("none", "micro", "macro", "weighted"):
        given = {"average": None if average == "none" else average}
        for options in ({}, {"threshold": 0.4}):
            yield from _both(
                "f1_score", "F1Score", _one_hot_scores([3]), given, average=average, **options
            )
        yield from _both(
            "fbeta_score", "FBetaScore", _coins([3], "float"), given, average=average, beta=2.0,
            threshold=0.5,
        )


def _areas():
    for curve in ("ROC", "PR"):
        for summation in ("interpolation", "minoring", "majoring"):
            for count in (200, 7):
                yield from _both(
                    "auc", "AUC", _coins([3]), curve=curve, summation_method=summation,
                    num_thresholds=count,
                )

    def logits(count, seed):
        return {**_coins([])(count, seed), "predictions": sample("float", [count], seed)}

    yield from _both("auc", "AUC", logits, from_logits=True)

    def certain(count, seed):
        batch = _coins([3])(count, seed)
        return {**batch, "predictions": np.round(batch["predictions"] * 2) / 2}

    yield from _both("auc", "AUC", certain)
    yield from _both("auc", "AUC", certain, curve="PR", num_thresholds=3)


class _ConfusionMatrix:
    """Computes a confusion matrix. Keras has only a function for it, not a metric class."""

    def __init__(self):
        self._sum = np.zeros([4, 4])

    def update_state(self, labels, predictions, sample_weight=None):
        weights = np.ones(labels.shape)
        if sample_weight is not None:
            weights *= sample_weight[:, None]
        self._sum += tf.math.confusion_matrix(
            labels.ravel(), predictions.ravel(), 4, weights.ravel(), tf.float64
        ).numpy()

    def result(self):
        return self._sum


class _Perplexity:
    """Computes KerasHub's formula."""

    def __init__(self, mask_token_id=None):
        self._mask, self._loss, self._count = mask_token_id, 0.0, 0.0

    def update_state(self, labels, predictions, sample_weight=None):
        losses = keras.losses.sparse_categorical_crossentropy(
            labels, predictions, from_logits=True
        ).numpy()
        weights = np.ones(labels.shape)
        if sample_weight is not None:
            weights *= sample_weight[:, None]
        if self._mask is not None:
            weights *= labels != self._mask
        self._loss += (losses * weights).sum()
        self._count += weights.sum()

    def result(self):
        return np.exp(self._loss / self._count)


def _others():
    real = {"dtype": "float32"}  # Keras rounds weights by default
    for options in ({"num_classes": 4}, {"num_classes": 6}, {"num_classes": 3, "ignore_class": 1}):
        yield from _both("mean_io_u", "MeanIoU", _ids, real, **options)
    for weighted in (False, True):
        yield _metric("confusion_matrix", _ConfusionMatrix(), _ids, weighted, num_classes=4)
        yield _metric("perplexity", _Perplexity(), _scores([3, 5]), weighted)
        yield _metric("perplexity", _Perplexity(2), _scores([3, 5]), weighted, mask_token_id=2)


if __name__ == "__main__":
    _FOLDER.mkdir(exist_ok=True)
    _write(
        "losses.txt", [*_regressions(), *_sparse(), *_categorical(), *_binaries(), *_ctcs()]
    )
    _write("metrics.txt", [*_means(), *_accuracies(), *_thresholds(), *_areas(), *_others()])
