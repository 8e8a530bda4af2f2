// SPDX-License-Identifier: Apache-2.0
//
// Losses for classifiers. In the formulas, p is a predicted probability, x a logit and y the label.
// All formulas give the loss of one example; the result is a scalar, or [batch, …] with
// LossReduction::kNone.
// Dtypes:   half, bfloat16, float, double; labels are cast to the predictions' dtype, except for
//           SparseSoftmaxCrossEntropy.
// Source:   Keras, with its epsilon of 1e-7. Probabilities are clipped to [epsilon, 1 - epsilon],
//           so that their logarithm is finite. If predictions are logits, nothing is clipped,
//           except in CategoricalFocalCrossentropy.
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
  // Labels of this class, such as padding, have a loss of 0 and do not count in the mean's divisor.
  // The class can be outside [0, classes). Unset: all labels count.
  std::optional<int64_t> ignore_class = std::nullopt;
  Output sample_weight = {};
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  std::string name = "loss";
};

// Cross entropy for integer labels: -log softmax(logits)[label]. Equals Keras'
// SparseCategoricalCrossentropy with from_logits=True.
// Shapes:   logits [batch, …, classes], labels [batch, …] (int32 or int64) -> scalar.
// Errors:   InvalidArgument for other shapes. A step with a label outside [0, classes) fails with
//           InvalidArgument and changes no variable.
Output SparseSoftmaxCrossEntropy(const Scope& scope, Output logits, Output labels,
                                 const SparseCrossEntropyOptions& options = {});

struct CrossentropyOptions {
  bool from_logits = false;  // whether predictions are logits instead of probabilities
  // How much of each label, from 0 to 1, is spread evenly over all classes. With it,
  // CategoricalCrossentropy requires a known number of classes.
  double label_smoothing = 0;
  Output sample_weight = {};
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  std::string name = "loss";
};

// Cross entropy for labels that are distributions over classes, such as one-hot labels:
// -sum(y log p) over the classes, where p is softmax(x) for logits x; predictions that are
// probabilities are first divided by their sum.
// Shapes:   predictions and labels [batch, …, classes] -> scalar.
// Errors:   InvalidArgument for other shapes, or label_smoothing outside [0, 1].
Output CategoricalCrossentropy(const Scope& scope, Output predictions, Output labels,
                               const CrossentropyOptions& options = {});

// Binary cross entropy for independent labels of 0 or 1: -y log p - (1 - y) log(1 - p), averaged
// over the last dimension. For logits, p = sigmoid(x).
// Shapes:   predictions and labels [batch, …] -> scalar.
// Errors:   InvalidArgument for other shapes, or label_smoothing outside [0, 1].
Output BinaryCrossentropy(const Scope& scope, Output predictions, Output labels,
                          const CrossentropyOptions& options = {});

struct BinaryFocalOptions {
  // Whether to multiply the loss by alpha for y = 1, and by 1 - alpha for y = 0.
  bool apply_class_balancing = false;
  double alpha = 0.25;
  double gamma = 2;
  bool from_logits = false;
  double label_smoothing = 0;
  Output sample_weight = {};
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  std::string name = "loss";
};

// Binary focal loss: (1 - q)^gamma times the binary cross entropy, where q = y p + (1 - y) (1 - p)
// is the label's probability.
// Shapes:   as for BinaryCrossentropy.
// Errors:   as for BinaryCrossentropy, and InvalidArgument if alpha is outside [0, 1], or if gamma
//           is negative or not finite.
// Source:   Lin et al., "Focal loss for dense object detection", 2017.
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

// Categorical focal loss: -sum(alpha (1 - p)^gamma y log p) over the classes, with p as in
// CategoricalCrossentropy.
// Shapes:   as for CategoricalCrossentropy.
// Errors:   as for CategoricalCrossentropy, and InvalidArgument if alpha or gamma is negative or
//           not finite.
// Source:   as for BinaryFocalCrossentropy.
Output CategoricalFocalCrossentropy(const Scope& scope, Output predictions, Output labels,
                                    const CategoricalFocalOptions& options = {});

// Kullback-Leibler divergence: sum(y log(y / p)) over the classes, with y and p clipped to
// [epsilon, 1].
// Shapes:   predictions (probabilities) and labels [batch, …, classes] -> scalar.
// Errors:   InvalidArgument for other shapes.
Output KLDivergence(const Scope& scope, Output predictions, Output labels,
                    const LossOptions& options = {});

// Margin losses. Here, p is a score of any magnitude, not a probability.
//
// Hinge loss: max(1 - y p, 0), averaged over the last dimension. Labels are -1 or 1; a label of 0
// means -1.
// Shapes:   predictions and labels [batch, …] -> scalar.
// Errors:   InvalidArgument if the shapes differ.
Output Hinge(const Scope& scope, Output predictions, Output labels,
             const LossOptions& options = {});
// Squared hinge loss: max(1 - y p, 0)², averaged over the last dimension. Labels, shapes and
// errors: as for Hinge.
Output SquaredHinge(const Scope& scope, Output predictions, Output labels,
                    const LossOptions& options = {});

// Hinge loss for one-hot labels: max(0, 1 + max((1 - y) p) - sum(y p)) along the last dimension.
// Shapes:   as for Hinge.
// Errors:   as for Hinge, and InvalidArgument if predictions have fewer than two dimensions.
Output CategoricalHinge(const Scope& scope, Output predictions, Output labels,
                        const LossOptions& options = {});

}  // namespace losses
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LOSSES_CLASSIFICATION_H_
