// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/accumulate.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/reduction.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/unary.h"
#include "ops/variable.h"
#include "train/losses/reductions.h"
#include "train/variable.h"

namespace mirrorflow {
namespace metrics {
namespace {

using ResultFn = absl::FunctionRef<Output(const Scope&, absl::Span<const Output> totals)>;

Output Nan(const Scope& s, DataType dtype) {
  return ops::ScalarConst(s, dtype, std::numeric_limits<double>::quiet_NaN());
}

// Returns NaN if a NaN in `values` has a weight other than 0, otherwise 0. Computes it as a sum,
// which, unlike a condition, needs no communication.
Output NanIfAny(const Scope& s, const Output& values, Output weights) {
  const Shape shape = s.shape(values), of_weights = s.shape(weights);
  if (!shape.unknown_rank() && !of_weights.unknown_rank()) {
    for (int d = of_weights.rank(); d < shape.rank(); ++d) {
      weights = ops::ExpandDims(s, weights, -1);
    }
  }
  const Output zero = ops::ScalarConst(s, DT_DOUBLE, 0);
  const Output counts = ops::LogicalAnd(s, ops::IsNan(s, values), ops::NotEqual(s, weights, zero));
  return ops::Sum(s, ops::SelectV2(s, counts, Nan(s, DT_DOUBLE), zero));
}

// Returns the batch's sums. The first sum becomes NaN if a source is NaN.
std::vector<BatchSum> WithNans(const Scope& s, std::vector<BatchSum> sums,
                               const NanSources& sources) {
  for (const Output& values : sources.values) {
    if (!s.ok() || !values.valid() || !IsFloating(values.dtype())) continue;
    Output& first = sums[0].of_batch;
    first = ops::AddV2(s, first, NanIfAny(s, values, sources.weights));
  }
  return sums;
}

// Returns the result for these totals, or NaN if a total is NaN.
Output ResultOf(const Scope& s, absl::Span<const Output> totals, ResultFn result) {
  const Output value = result(s, totals);
  Output is_nan;
  for (const Output& total : totals) {
    if (!s.ok()) return Output();
    const Output has_nan = ops::Any(s, ops::IsNan(s, total));
    is_nan = is_nan.valid() ? ops::LogicalOr(s, is_nan, has_nan) : has_nan;
  }
  return s.ok() ? ops::SelectV2(s, is_nan, Nan(s, value.dtype()), value) : Output();
}

}  // namespace

Metric Accumulate(const Scope& scope, const std::vector<BatchSum>& sums, const NanSources& sources,
                  ResultFn result) {
  if (!scope.ok()) return {};
  std::vector<Output> before, after;
  std::vector<Operation> additions, assignments;
  for (const BatchSum& sum : WithNans(scope, sums, sources)) {
    if (!scope.ok() || !sum.of_batch.valid()) return {};
    const Shape shape = scope.shape(sum.of_batch);
    if (!shape.IsFullyDefined()) {
      scope.Fail(absl::InternalError(absl::StrCat("metric: expected a known shape for sum '",
                                                  sum.name, "', got ", shape.ToString())));
      return {};
    }
    const Variable total = CreateVariable(scope, sum.name, shape, initializers::Zeros(), DT_DOUBLE,
                                          {.synchronization = VariableSynchronization::kOnRead});
    if (!scope.ok()) return {};
    const Operation add = ops::AssignAddVariableOp(scope, total.handle, sum.of_batch);
    additions.push_back(add);
    before.push_back(total.value);
    after.push_back(ops::ReadVariableOp(scope.WithControlDependencies({add}), total.handle));
    const Output zeros = ops::Fill(scope, ops::VectorConst(scope, shape.dims()),
                                   ops::ScalarConst(scope, DT_DOUBLE, 0));
    assignments.push_back(ops::AssignVariableOp(scope, total.handle, zeros));
  }
  if (!scope.ok()) return {};
  return {.update = ops::Group(scope.WithName("update"), additions),
          .result = ResultOf(scope.SubScope("result"), before, result),
          .updated_result = ResultOf(scope.SubScope("updated_result"), after, result),
          .reset = ops::Group(scope.WithName("reset"), assignments)};
}

Scope MetricScope(const Scope& scope, const std::string& name, absl::string_view own_name) {
  return scope.SubScope(name.empty() ? own_name : name);
}

Weighted ApplyWeights(const Scope& scope, absl::string_view what, Output values,
                      Output sample_weight) {
  if (!scope.ok() || !values.valid()) return {};
  values = AsType(scope, values, DT_DOUBLE);
  const Output ones = ops::OnesLike(scope, values);
  if (!sample_weight.valid()) return {values, ones};
  const Output weights = AlignWeights(scope, what, sample_weight, values);
  if (!weights.valid()) return {};
  // Select 0 where the weight is 0, because 0 * NaN would be NaN.
  const Output zero = ops::ScalarConst(scope, DT_DOUBLE, 0);
  const Output weighted = ops::SelectV2(scope, ops::Equal(scope, weights, zero), zero,
                                        ops::Mul(scope, values, weights));
  return {weighted, ops::Mul(scope, ones, weights)};
}

Metric WeightedMean(const Scope& scope, absl::string_view what, Output values, Output sample_weight,
                    const std::vector<Output>& compared) {
  const Weighted weighted = ApplyWeights(scope, what, values, sample_weight);
  if (!weighted.values.valid()) return {};
  return Accumulate(
      scope,
      {{"total", ops::Sum(scope, weighted.values)}, {"count", ops::Sum(scope, weighted.weights)}},
      {.values = compared, .weights = weighted.weights},
      [](const Scope& s, absl::Span<const Output> totals) {
        return ops::Cast(s, ops::DivNoNan(s, totals[0], totals[1]), DT_FLOAT);
      });
}

}  // namespace metrics
}  // namespace mirrorflow
