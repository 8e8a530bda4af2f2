// SPDX-License-Identifier: Apache-2.0
//
// Regression losses. In the formulas, p is a prediction, y its label, and e = p - y. An example's
// loss is the mean of the formula over the last dimension; predictions of shape [batch] are one
// value per example.
//
// Shapes:   predictions and labels [batch, …] -> scalar, or one loss per example with
//           LossReduction::kNone.
//
// Dtypes:   half, bfloat16, float, double; labels are cast to the predictions' dtype.
//
// Errors:   InvalidArgument if the shapes differ; neither is broadcast to the other.
//
// Source:   Keras, with its epsilon of 1e-7.
#ifndef MIRRORFLOW_TRAIN_LOSSES_REGRESSION_H_
#define MIRRORFLOW_TRAIN_LOSSES_REGRESSION_H_

#include <string>

#include "framework/graph/scope.h"
#include "train/losses/reductions.h"

namespace mirrorflow {
namespace losses {

// e²
Output MeanSquaredError(const Scope& scope, Output predictions, Output labels,
                        const LossOptions& options = {});
// |e|
Output MeanAbsoluteError(const Scope& scope, Output predictions, Output labels,
                         const LossOptions& options = {});
// 100 |e| / max(|y|, epsilon)
Output MeanAbsolutePercentageError(const Scope& scope, Output predictions, Output labels,
                                   const LossOptions& options = {});
// (log(1 + max(p, epsilon)) - log(1 + max(y, epsilon)))²
Output MeanSquaredLogarithmicError(const Scope& scope, Output predictions, Output labels,
                                   const LossOptions& options = {});
// log(cosh(e)), computed without overflow
Output LogCosh(const Scope& scope, Output predictions, Output labels,
               const LossOptions& options = {});
// p - y log(p + epsilon), the negative log likelihood of a Poisson distribution with mean p,
// without terms that depend only on y
Output Poisson(const Scope& scope, Output predictions, Output labels,
               const LossOptions& options = {});

struct HuberOptions {
  double delta = 1;  // the |e| at which the loss becomes linear
  Output sample_weight = {};
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  std::string name = "loss";
};

// e² / 2 for |e| <= delta, otherwise delta |e| - delta² / 2.
// Errors:   as above, and InvalidArgument if delta is not positive and finite.
// Source:   Huber, "Robust estimation of a location parameter", 1964.
Output Huber(const Scope& scope, Output predictions, Output labels,
             const HuberOptions& options = {});

// -sum(p y) / (|p| |y|) over the last dimension: -1 for vectors in the same direction, 1 for
// vectors in opposite directions, and 0 if either vector is zero.
// Errors:   as above, and InvalidArgument if predictions have fewer than two dimensions.
Output CosineSimilarity(const Scope& scope, Output predictions, Output labels,
                        const LossOptions& options = {});

}  // namespace losses
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LOSSES_REGRESSION_H_
