// SPDX-License-Identifier: Apache-2.0
#include "train/losses/reductions.h"

#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

bool CheckLabels(const Scope& scope, absl::string_view what, const Shape& expected,
                 const Output& labels) {
  const Shape got = scope.shape(labels);
  if (!scope.ok()) return false;
  bool equal = expected.IsCompatibleWith(got);
  // A dimension of 1 could be broadcast to a dimension that is still unknown.
  if (equal && !expected.unknown_rank() && !got.unknown_rank()) {
    for (int d = 0; d < expected.rank(); ++d) {
      equal = equal && (expected.dim(d) == 1) == (got.dim(d) == 1);
    }
  }
  if (equal) return true;
  FailLoss(scope, what, "labels '", labels.ToString(),
           "' do not match the shape of the predictions; expected ", expected.ToString(), ", got ",
           got.ToString());
  return false;
}

}  // namespace

bool CheckEqualShapes(const Scope& scope, absl::string_view what, const Output& predictions,
                      const Output& labels, int min_rank) {
  if (min_rank > 0 && !CheckMinRank(scope, what, predictions, min_rank)) return false;
  return CheckLabels(scope, what, scope.shape(predictions), labels);
}

bool CheckSparseLabels(const Scope& scope, absl::string_view what, const Output& predictions,
                       const Output& labels) {
  if (!CheckMinRank(scope, what, predictions, 1)) return false;
  const Shape shape = scope.shape(predictions);
  return CheckLabels(scope, what, Shape(shape.dims().first(shape.rank() - 1)), labels);
}

bool CheckMinRank(const Scope& scope, absl::string_view what, const Output& x, int rank) {
  const Shape shape = scope.shape(x);
  if (!scope.ok()) return false;
  if (!shape.unknown_rank() && shape.rank() >= rank) return true;
  FailLoss(scope, what, "expected '", x.ToString(), "' to have at least ", rank,
           rank == 1 ? " dimension" : " dimensions", ", got ", shape.ToString());
  return false;
}

Output AsType(const Scope& scope, Output x, DataType dtype) {
  return !x.valid() || x.dtype() == dtype ? x : ops::Cast(scope, x, dtype);
}

Output AlignWeights(const Scope& scope, absl::string_view what, Output weights,
                    const Output& values) {
  const Shape expected = scope.shape(values), got = scope.shape(weights);
  if (!scope.ok()) return Output();
  bool fits = !expected.unknown_rank() && !got.unknown_rank() && got.rank() <= expected.rank();
  for (int d = 0; fits && d < got.rank(); ++d) {
    const int64_t have = got.dim(d), need = expected.dim(d);
    fits = have == need || have == 1 || (need != 1 && (have == -1 || need == -1));
  }
  if (!fits) {
    return FailLoss(scope, what,
                    "the sample weights do not match the losses; expected leading dimensions of ",
                    expected.ToString(), ", got ", got.ToString());
  }
  for (int d = got.rank(); d < expected.rank(); ++d) weights = ops::ExpandDims(scope, weights, -1);
  return AsType(scope, weights, values.dtype());
}

Output ReduceLosses(const Scope& scope, absl::string_view what, Output losses,
                    const LossArguments& arguments) {
  if (!losses.valid()) return Output();
  if (arguments.valid.valid()) {
    losses = ops::SelectV2(scope, arguments.valid, losses, ops::ZerosLike(scope, losses));
  }
  if (arguments.sample_weight.valid()) {
    const Output weights = AlignWeights(scope, what, arguments.sample_weight, losses);
    losses = ops::Mul(scope, losses, weights);
  }
  if (!scope.ok()) return Output();
  if (arguments.reduction == LossReduction::kNone) return losses;
  if (arguments.reduction == LossReduction::kSum) return ops::Sum(scope, losses);
  if (!arguments.valid.valid()) return ops::Mean(scope, losses);
  const Output count = ops::Sum(scope, ops::Cast(scope, arguments.valid, losses.dtype()));
  return ops::DivNoNan(scope, ops::Sum(scope, losses), count);
}

Output ReduceTerms(const Scope& scope, absl::string_view what, Output terms,
                   const LossArguments& arguments) {
  if (!terms.valid()) return Output();
  // The mean of the means is the overall mean, so one reduction suffices.
  if (!arguments.sample_weight.valid() && !arguments.valid.valid() &&
      arguments.reduction == LossReduction::kSumOverBatchSize) {
    return ops::Mean(scope, terms);
  }
  if (!CheckMinRank(scope, what, terms, 0)) return Output();
  if (scope.shape(terms).rank() > 1) terms = ops::Mean(scope, terms, {-1});
  return ReduceLosses(scope, what, terms, arguments);
}

}  // namespace mirrorflow
