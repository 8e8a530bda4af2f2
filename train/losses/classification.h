// SPDX-License-Identifier: Apache-2.0
//
// Losses of classifiers. Below, p is a probability, x a logit and y the label.
// Dtypes:   half, bfloat16, float, double; labels are cast to the dtype of the predictions.
// Source:   Keras, with its epsilon of 1e-7. Probabilities are clipped to [epsilon, 1 - epsilon];
//           logits keep their precision.
#ifndef MIRRORFLOW_TRAIN_LOSSES_CLASSIFICATION_H_
#define MIRRORFLOW_TRAIN_LOSSES_CLASSIFICATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "framework/graph/scope.h"
#include "train/losses/reductions.h"

namespace mirrorflow {
namespace losses {

struct SparseCrossEntropyOptions {
  // Labels of this class have a loss of 0 and are not counted in the mean, for example padding. It
  // may lie outside [0, classes).
  std::optional<int64_t> ignore_class = std::nullopt;
  Output sample_weight = {};
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  std::string name = "loss";
};

// Cross entropy for integer labels: -log softmax(logits)[label]. Keras'
// SparseCategoricalCrossentropy with from_logits=True.
// Shapes:   logits [batch, …, classes], labels [batch, …] (int32 or int64) -> scalar.
// Errors:   InvalidArgument for other shapes. The step fails with InvalidArgument for a label
//           outside [0, classes); the failed step changes no variable.
Output SparseSoftmaxCrossEntropy(const Scope& scope, Output logits, Output labels,
                                 const SparseCrossEntropyOptions& options = {});

struct CrossentropyOptions {
  bool from_logits = false;    // predictions are logits, not probabilities
  double label_smoothing = 0;  // fraction of the label mass to spread over all classes
  Output sample_weight = {};
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  std::string name = "loss";
};

// Cross entropy for labels that are distributions over classes, such as one-hot labels:
// -sum(y log p) over the classes; p = softmax(x), or the predictions divided by their sum.
// Shapes:   predictions and labels [batch, …, classes] -> scalar.
// Errors:   InvalidArgument for other shapes, or label_smoothing outside [0, 1].
Output CategoricalCrossentropy(const Scope& scope, Output predictions, Output labels,
                               const CrossentropyOptions& options = {});

// Binary cross entropy, for independent labels of 0 or 1: -y log p - (1 - y) log(1 - p), the mean
// over the last dimension; p = sigmoid(x).
// Shapes:   predictions and labels [batch, …] -> scalar.
// Errors:   InvalidArgument for other shapes, or label_smoothing outside [0, 1].
Output BinaryCrossentropy(const Scope& scope, Output predictions, Output labels,
                          const CrossentropyOptions& options = {});

struct BinaryFocalOptions {
  bool apply_class_balancing = false;  // multiply by alpha for y = 1, by 1 - alpha for y = 0
  double alpha = 0.25;
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  Output sample_weight = {};
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  std::string name = "loss";
};

// (1 - q)^gamma times the binary cross entropy, where q = y p + (1 - y) (1 - p) is the probability
// of the label.
// Shapes and errors: as for BinaryCrossentropy. InvalidArgument also for alpha outside [0, 1], and
// for a gamma that is negative or not finite.
// Source: Lin et al., "Focal loss for dense object detection", 2017.
Output BinaryFocalCrossentropy(const Scope& scope, Output predictions, Output labels,
                               const BinaryFocalOptions& options = {});

struct CategoricalFocalOptions {
  double alpha = 0.25;
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  Output sample_weight = {};
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  std::string name = "loss";
};

// -sum(alpha (1 - p)^gamma y log p) over the classes. Shapes, errors and source: as for
// CategoricalCrossentropy and BinaryFocalCrossentropy, but alpha may be any factor of at least 0.
Output CategoricalFocalCrossentropy(const Scope& scope, Output predictions, Output labels,
                                    const CategoricalFocalOptions& options = {});

// Kullback-Leibler divergence: sum(y log(y / p)) over the classes, with y and p clipped to
// [epsilon, 1].
// Shapes:   predictions and labels [batch, …, classes] -> scalar.
Output KLDivergence(const Scope& scope, Output predictions, Output labels,
                    const LossOptions& options = {});

// Margin losses. Here, p is a score of any magnitude, not a probability.
//
// max(1 - y p, 0), the mean over the last dimension. Labels are -1 or 1; a label of 0 counts as -1.
// Shapes:   predictions and labels [batch, …] -> scalar.
// Errors:   InvalidArgument unless both have the same shape; nothing is broadcast.
Output Hinge(const Scope& scope, Output predictions, Output labels,
             const LossOptions& options = {});
// max(1 - y p, 0)², the mean over the last dimension. Shapes and errors: as for Hinge.
Output SquaredHinge(const Scope& scope, Output predictions, Output labels,
                    const LossOptions& options = {});

// max(0, 1 + max((1 - y) p) - sum(y p)) along the last dimension, for one-hot labels.
// Shapes:   as for Hinge.
// Errors:   as for Hinge, and InvalidArgument if predictions have fewer than two dimensions.
Output CategoricalHinge(const Scope& scope, Output predictions, Output labels,
                        const LossOptions& options = {});

}  // namespace losses
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LOSSES_CLASSIFICATION_H_
