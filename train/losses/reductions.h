// SPDX-License-Identifier: Apache-2.0
//
// Options, shape checks, sample weights and reductions shared by losses and metrics.
#ifndef MIRRORFLOW_TRAIN_LOSSES_REDUCTIONS_H_
#define MIRRORFLOW_TRAIN_LOSSES_REDUCTIONS_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// How a loss combines the losses of the global batch's examples (Keras' `reduction`).
enum class LossReduction {
  kSumOverBatchSize,  // sum(loss * weight) / number of losses; weights do not affect the divisor
  kSum,               // sum(loss * weight)
  kNone,              // the weighted losses themselves, of shape [batch, …]
};

namespace losses {

// The options of a loss without parameters. The options of every other loss include them.
struct LossOptions {
  // A factor for each example's loss, of any numeric dtype. Its shape is that of the losses or of
  // their leading dimensions; any dimension can be 1 instead. Invalid: all factors are 1.
  Output sample_weight = {};
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  std::string name = "loss";
};

}  // namespace losses

// Fails the scope with InvalidArgument. Returns an invalid output.
template <typename... Parts>
Output FailLoss(const Scope& scope, absl::string_view what, const Parts&... why) {
  scope.Fail(absl::InvalidArgumentError(absl::StrCat(what, ": ", why...)));
  return Output();
}

// Returns whether the known dimensions of both shapes are equal, and there are at least `min_rank`
// dimensions. If not, fails the scope; otherwise, the values might be broadcast.
bool CheckEqualShapes(const Scope& scope, absl::string_view what, const Output& predictions,
                      const Output& labels, int min_rank = 0);
// Does the same for labels without the last dimension of the predictions, [batch, …, classes].
bool CheckSparseLabels(const Scope& scope, absl::string_view what, const Output& predictions,
                       const Output& labels);

// Returns whether x is known to have at least `rank` dimensions. If not, fails the scope.
bool CheckMinRank(const Scope& scope, absl::string_view what, const Output& x, int rank);

// Returns x cast to `dtype`, or x itself if it already has that dtype.
Output AsType(const Scope& scope, Output x, DataType dtype);

// Returns `weights` in a form that multiplies `values`: cast to their dtype, with dimensions of
// size 1 appended up to their rank, so [batch] matches [batch, n]. Fails the scope if the shapes do
// not match.
Output AlignWeights(const Scope& scope, absl::string_view what, Output weights,
                    const Output& values);

// The arguments of all losses besides predictions and labels.
struct LossArguments {
  // Accepts the options of any loss.
  template <typename Options>
  LossArguments(const Options& options, Output valid = Output())  // NOLINT: implicit conversion
      : sample_weight(options.sample_weight), reduction(options.reduction), valid(valid) {}

  Output sample_weight;  // invalid: no weights
  LossReduction reduction;
  Output valid;  // which losses count: bool, with the losses' shape; invalid: all of them
};

// Reduces losses [batch, …]. kSumOverBatchSize divides by the number of losses that count.
Output ReduceLosses(const Scope& scope, absl::string_view what, Output losses,
                    const LossArguments& arguments);

// Averages terms [batch, …, n] over the last dimension, and reduces the resulting losses. Terms of
// shape [batch] are already losses.
Output ReduceTerms(const Scope& scope, absl::string_view what, Output terms,
                   const LossArguments& arguments);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LOSSES_REDUCTIONS_H_
