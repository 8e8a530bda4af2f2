// SPDX-License-Identifier: Apache-2.0
#include "train/losses/hinge.h"

#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/reduction.h"
#include "ops/select.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace losses {
namespace {

// max(1 - y p, 0), or an invalid output after an error.
Output Shortfall(const Scope& s, absl::string_view what, Output predictions, Output labels) {
  if (!CheckEqualShapes(s, what, predictions, labels)) return Output();
  const DataType dtype = predictions.dtype();
  const Output one = ops::ScalarConst(s, dtype, 1), zero = ops::ScalarConst(s, dtype, 0);
  Output y = AsType(s, labels, dtype);
  y = ops::SelectV2(s, ops::Equal(s, y, zero), ops::Neg(s, ops::OnesLike(s, y)), y);
  return ops::Maximum(s, ops::Sub(s, one, ops::Mul(s, y, predictions)), zero);
}

}  // namespace

Output Hinge(const Scope& scope, Output predictions, Output labels, const LossOptions& options) {
  const Scope s = scope.SubScope(options.name);
  return ReduceTerms(s, "hinge", Shortfall(s, "hinge", predictions, labels),
                     {.sample_weight = options.sample_weight, .reduction = options.reduction});
}

Output SquaredHinge(const Scope& scope, Output predictions, Output labels,
                    const LossOptions& options) {
  const Scope s = scope.SubScope(options.name);
  const Output shortfall = Shortfall(s, "squared_hinge", predictions, labels);
  if (!shortfall.valid()) return Output();
  return ReduceTerms(s, "squared_hinge", ops::Square(s, shortfall),
                     {.sample_weight = options.sample_weight, .reduction = options.reduction});
}

Output CategoricalHinge(const Scope& scope, Output predictions, Output labels,
                        const LossOptions& options) {
  const Scope s = scope.SubScope(options.name);
  constexpr absl::string_view kWhat = "categorical_hinge";
  if (!CheckMinRank(s, kWhat, predictions, 2)) return Output();
  if (!CheckEqualShapes(s, kWhat, predictions, labels)) return Output();
  const DataType dtype = predictions.dtype();
  const Output one = ops::ScalarConst(s, dtype, 1), y = AsType(s, labels, dtype);
  const Output right = ops::Sum(s, ops::Mul(s, y, predictions), {-1});
  const Output wrong = ops::Max(s, ops::Mul(s, ops::Sub(s, one, y), predictions), {-1});
  const Output shortfall = ops::AddV2(s, ops::Sub(s, wrong, right), one);
  return ReduceLosses(s, kWhat, ops::Maximum(s, shortfall, ops::ScalarConst(s, dtype, 0)),
                      {.sample_weight = options.sample_weight, .reduction = options.reduction});
}

}  // namespace losses
}  // namespace mirrorflow
