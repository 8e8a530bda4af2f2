// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/adjustable_rate.h"

#include "ops/cast.h"
#include "ops/variable.h"
#include "train/numeric_options.h"
#include "train/optimizers/variable_update.h"

namespace mirrorflow {
namespace schedules {

LearningRateSchedule Adjustable(double initial, const std::string& variable) {
  return [=](const Scope& scope, Output step) {
    if (!CheckNumbers(scope, "Adjustable", {{"initial", initial, kNotNegative}})) return Output();
    const Scope root(&scope.graph());
    // Once, if the updates have several dtypes.
    Node* const made = scope.graph().FindNode(variable);
    const Output value =
        made != nullptr
            ? ops::ReadVariableOp(scope, made->output(0))
            : CreateOptimizerState(root, variable, {}, initializers::Constant(initial), DT_FLOAT)
                  .value;
    return step.dtype() == DT_FLOAT ? value : ops::Cast(scope, value, step.dtype());
  };
}

}  // namespace schedules
}  // namespace mirrorflow
