// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/loss_scale.h"

#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/reduction.h"
#include "ops/select.h"
#include "ops/unary.h"
#include "ops/variable.h"
#include "train/numeric_options.h"

namespace mirrorflow {

absl::Status CheckLossScaleOptions(const LossScaleOptions& o) {
  return CheckNumbers("minimize: loss_scale",
                      {{"initial_scale", o.initial_scale, kPositive},
                       {"dynamic_growth_steps", o.dynamic_growth_steps, kAtLeastOne}});
}

LossScale::LossScale(const Scope& scope, const LossScaleOptions& options)
    : s_(scope.SubScope("loss_scale")), options_(options) {
  scale_ = CreateOptimizerState(s_, "dynamic_scale", {},
                                initializers::Constant(options.initial_scale), DT_FLOAT);
  counter_ = CreateOptimizerState(s_, "step_counter", {}, initializers::Zeros(), DT_INT64);
}

Output LossScale::Scale(Output loss) const {
  // The product might not fit in half precision.
  if (loss.dtype() != DT_DOUBLE) loss = ops::Cast(s_, loss, DT_FLOAT);
  return Term(s_, loss) * Term(s_, ops::Cast(s_, scale_.value, loss.dtype()));
}

std::vector<GradientAndVariable> LossScale::Unscale(
    absl::Span<const GradientAndVariable> gradients) const {
  std::vector<GradientAndVariable> unscaled;
  for (const GradientAndVariable& gv : gradients) {
    const Term scale(s_, ops::Cast(s_, scale_.value, gv.gradient.dtype()));
    unscaled.push_back({Term(s_, gv.gradient) / scale, gv.variable});
  }
  return unscaled;
}

Output LossScale::AllFinite(absl::Span<const GradientAndVariable> gradients) const {
  Output all;
  for (const GradientAndVariable& gv : gradients) {
    const Output own = ops::All(s_, ops::IsFinite(s_, gv.gradient));
    all = all.valid() ? ops::LogicalAnd(s_, all, own) : own;
  }
  return all;
}

std::vector<Operation> LossScale::Adapt(Output all_finite, Output counts) const {
  const Term scale(s_, scale_.value), counter(s_, counter_.value);
  const double last = static_cast<double>(options_.dynamic_growth_steps - 1);
  const Output grows =
      ops::LogicalAnd(s_, all_finite, ops::GreaterEqual(s_, counter, counter.Number(last)));
  const Term doubled = Min(scale * 2, scale.Number(0x1p127));  // stays finite
  const Output adapted =
      ops::SelectV2(s_, grows, doubled, ops::SelectV2(s_, all_finite, scale, scale * 0.5));
  const Output continues = ops::LogicalAnd(s_, all_finite, ops::LogicalNot(s_, grows));
  const Output counted = ops::SelectV2(s_, continues, counter + 1, counter.Number(0));
  auto assign = [&](const Variable& variable, Output next) {
    if (counts.valid()) next = ops::SelectV2(s_, counts, next, variable.value);
    return ops::AssignVariableOp(s_, variable.handle, next);
  };
  return {assign(scale_, adapted), assign(counter_, counted)};
}

}  // namespace mirrorflow
