// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/sgd.h"

#include "ops/constant.h"
#include "ops/update.h"

namespace mirrorflow {

void GradientDescent::Update(VariableUpdate& u, const Shared& shared) const {
  u.Add(ops::ResourceApplyGradientDescent(u.write_scope(), u.variable(), shared[0], u.gradient(),
                                          {.gates = u.gates()}));
}

Momentum::Momentum(const Options& o)
    : Optimizer("Momentum", o.learning_rate, {{"momentum", o.momentum, kFraction}}), options_(o) {}

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
