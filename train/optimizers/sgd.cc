// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/sgd.h"

#include "ops/constant.h"
#include "ops/update.h"
#include "train/numeric_options.h"

namespace mirrorflow {

absl::Status GradientDescent::CheckOptions() const {
  const Options& o = options_;
  return CheckNumbers("GradientDescent",
                      {{"learning_rate", o.learning_rate.value(), kNotNegative}});
}

Optimizer::Shared GradientDescent::Prepare(const Scope& scope, Output learning_rate, Output) const {
  return {learning_rate};
}

void GradientDescent::Update(VariableUpdate& u, const Shared& shared) const {
  u.Add(ops::ResourceApplyGradientDescent(u.write_scope(), u.variable(), shared[0], u.gradient(),
                                          {.gates = u.gates()}));
}

absl::Status Momentum::CheckOptions() const {
  const Options& o = options_;
  return CheckNumbers("Momentum", {{"learning_rate", o.learning_rate.value(), kNotNegative},
                                   {"momentum", o.momentum, kFraction}});
}

Optimizer::Shared Momentum::Prepare(const Scope& scope, Output learning_rate, Output) const {
  return {learning_rate,
          ops::ScalarConst(scope.WithName("momentum"), learning_rate.dtype(), options_.momentum)};
}

void Momentum::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable momentum = u.Slot("momentum");
  u.Add(ops::ResourceApplyMomentum(u.write_scope(), u.variable(), momentum.handle, shared[0],
                                   u.gradient(), shared[1],
                                   {.use_nesterov = options_.use_nesterov, .gates = u.gates()}));
}

}  // namespace mirrorflow
