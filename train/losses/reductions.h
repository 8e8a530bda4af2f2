// SPDX-License-Identifier: Apache-2.0
//
// Options, shape checks, example weights and reductions that losses and metrics share.
#ifndef MIRRORFLOW_TRAIN_LOSSES_REDUCTIONS_H_
#define MIRRORFLOW_TRAIN_LOSSES_REDUCTIONS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "framework/graph/scope.h"

namespace mirrorflow {

// How a loss combines its values for the examples of the global batch (Keras' `reduction`).
enum class LossReduction {
  kSumOverBatchSize,  // sum(loss * weight) / number of losses: weights do not change the divisor
  kSum,
  kNone,  // the weighted losses themselves, of shape [batch, …]
};

namespace losses {

// The options of a loss without parameters. All other losses have these options, too.
struct LossOptions {
  // A factor for the loss of each example: the shape of the losses or their first dimensions, or
  // sizes of 1 in their place. Any numeric dtype.
  Output sample_weight = {};
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  std::string name = "loss";
};

}  // namespace losses

// Fails the scope with InvalidArgument. Returns an invalid output.
Output FailLoss(const Scope& scope, absl::string_view what, absl::string_view why);

// Whether the known parts of the shapes are equal. If not, fails the scope, because the values
// would be broadcast.
bool CheckEqualShapes(const Scope& scope, absl::string_view what, const Output& predictions,
                      const Output& labels);
// The same for labels that lack the last dimension of the predictions, [batch, …, classes].
bool CheckSparseLabels(const Scope& scope, absl::string_view what, const Output& predictions,
                       const Output& labels);

// Whether x is known to have at least `rank` dimensions. If not, fails the scope.
bool CheckMinRank(const Scope& scope, absl::string_view what, const Output& x, int rank);

// x as `dtype`; itself if it has that dtype.
Output AsType(const Scope& scope, Output x, DataType dtype);

// `weights` as factors of `values`: with their dtype, and with dimensions of size 1 appended up to
// their rank, so that [batch] fits [batch, n]. Fails the scope if the weights do not fit.
Output AlignWeights(const Scope& scope, absl::string_view what, Output weights,
                    const Output& values);

// The arguments that all losses take besides predictions and labels.
struct LossArguments {
  // Takes the options of any loss.
  template <typename Options>
  LossArguments(const Options& options, Output valid = Output())  // NOLINT: implicit conversion
      : sample_weight(options.sample_weight), reduction(options.reduction), valid(valid) {}

  Output sample_weight;  // none if invalid
  LossReduction reduction;
  Output valid;  // bool, of the shape of the losses: those that count; all if invalid
};

// Reduces losses [batch, …]. kSumOverBatchSize divides by the number of those that count.
Output ReduceLosses(const Scope& scope, absl::string_view what, Output losses,
                    const LossArguments& arguments);

// The same for terms whose mean over the last dimension is the loss of an example. Terms of shape
// [batch] are already losses.
Output ReduceTerms(const Scope& scope, absl::string_view what, Output terms,
                   const LossArguments& arguments);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LOSSES_REDUCTIONS_H_
