// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/collectives.h"
#include "train/optimizers/check_gradients.h"
#include "train/optimizers/optimizer.h"

namespace mirrorflow {
namespace {

// Checks the result of a reducer of `gv`, a gradient of the variable called `name`.
absl::Status CheckReduced(const Scope& scope, absl::string_view name, const GradientAndVariable& gv,
                          const Output& reduced) {
  const std::string where = absl::StrCat("reduction of the gradient of '", name, "'");
  if (!reduced.valid()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": expected a value, got none"));
  }
  MF_RETURN_IF_ERROR(Annotate(scope.graph().CheckOwns(reduced), where));
  const Shape &want = scope.shape(gv.gradient), &got = scope.shape(reduced);
  if (reduced.dtype() == gv.gradient.dtype() && want.IsCompatibleWith(got)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": expected ", DataTypeName(gv.gradient.dtype()), want.ToString(),
                   ", got ", DataTypeName(reduced.dtype()), got.ToString()));
}

}  // namespace

ReducedGradients Optimizer::ReduceGradients(const Scope& scope,
                                            absl::Span<const GradientAndVariable> gradients,
                                            const GradientReducer& reduce, Output gate) {
  ReducedGradients result;
  if (!scope.ok()) return result;
  if (absl::Status status = CheckGradients(scope.graph(), gradients, gate); !status.ok()) {
    scope.Fail(std::move(status));
    return result;
  }
  const Scope s = scope.SubScope("reduce");
  for (const GradientAndVariable& gv : gradients) {
    const std::string& name = gv.variable.node->name();
    const Scope own = s.SubScope(name);
    GradientReduction reduction(own, gv.gradient, gv.variable, gate);
    Output reduced = reduce(reduction);
    if (!s.ok()) return {};
    if (absl::Status status = CheckReduced(s, name, gv, reduced); !status.ok()) {
      s.Fail(std::move(status));
      return {};
    }
    reduced = ops::EnsureReplicated(
        own, reduced, absl::StrCat("reduction of the gradient of variable '", name, "'"));
    result.gradients.push_back({reduced, gv.variable});
    for (const Operation& update : reduction.updates()) result.updates.push_back(update);
  }
  return result;
}

}  // namespace mirrorflow
