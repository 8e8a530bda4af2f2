// SPDX-License-Identifier: Apache-2.0
#include "train/metrics/accumulate.h"

#include "absl/strings/str_cat.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/reduction.h"
#include "ops/shape_ops.h"
#include "ops/unary.h"
#include "ops/variable.h"
#include "train/losses/reductions.h"
#include "train/variable.h"

namespace mirrorflow {
namespace metrics {

Metric Accumulate(const Scope& scope, const std::vector<BatchSum>& sums,
                  absl::FunctionRef<Output(const Scope&, absl::Span<const Output> totals)> result) {
  std::vector<Output> before, after;
  std::vector<Operation> additions, assignments;
  for (const BatchSum& sum : sums) {
    if (!scope.ok() || !sum.of_batch.valid()) return {};
    const Shape shape = scope.shape(sum.of_batch);
    if (!shape.IsFullyDefined()) {
      scope.Fail(absl::InternalError(
          absl::StrCat("metric: the shape of the sum '", sum.name, "' is ", shape.ToString())));
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
          .result = result(scope.SubScope("result"), before),
          .updated_result = result(scope.SubScope("updated_result"), after),
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
  return {ops::Mul(scope, values, weights), ops::Mul(scope, ones, weights)};
}

Metric WeightedMean(const Scope& scope, absl::string_view what, Output values,
                    Output sample_weight) {
  const Weighted weighted = ApplyWeights(scope, what, values, sample_weight);
  if (!weighted.values.valid()) return {};
  return Accumulate(
      scope,
      {{"total", ops::Sum(scope, weighted.values)}, {"count", ops::Sum(scope, weighted.weights)}},
      [](const Scope& s, absl::Span<const Output> totals) {
        return ops::Cast(s, ops::DivNoNan(s, totals[0], totals[1]), DT_FLOAT);
      });
}

}  // namespace metrics
}  // namespace mirrorflow
