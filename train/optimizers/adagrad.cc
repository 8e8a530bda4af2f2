// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/adagrad.h"

#include "ops/constant.h"
#include "ops/update.h"
#include "train/numeric_options.h"

namespace mirrorflow {

absl::Status Adagrad::CheckOptions() const {
  const Options& o = options_;
  return CheckNumbers("Adagrad",
                      {{"learning_rate", o.learning_rate.value(), kNotNegative},
                       {"initial_accumulator_value", o.initial_accumulator_value, kNotNegative},
                       {"epsilon", o.epsilon, kNotNegative}});
}

// Order: learning_rate, epsilon.
Optimizer::Shared Adagrad::Prepare(const Scope& scope, Output learning_rate, Output) const {
  return {learning_rate,
          ops::ScalarConst(scope.WithName("epsilon"), learning_rate.dtype(), options_.epsilon)};
}

void Adagrad::Update(VariableUpdate& u, const Shared& shared) const {
  const Variable accumulator = u.Slot("accumulator", options_.initial_accumulator_value);
  u.Add(ops::ResourceApplyAdagradV2(u.write_scope(), u.variable(), accumulator.handle, shared[0],
                                    shared[1], u.gradient(), {.gates = u.gates()}));
}

}  // namespace mirrorflow
