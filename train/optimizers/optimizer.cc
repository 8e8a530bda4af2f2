// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/optimizer.h"

#include <optional>
#include <string>
#include <utility>

#include "framework/graph/shape_inference.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/select.h"
#include "ops/unary.h"
#include "ops/variable.h"
#include "train/graph_walk.h"
#include "train/optimizers/clipping.h"
#include "train/optimizers/gradient_accumulation.h"
#include "train/optimizers/loss_scale.h"
#include "train/optimizers/moving_average.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using GradientList = std::vector<GradientAndVariable>;

// Assigns each variable its next value (kNextValueAttr) if `results` depend on the node that
// computes that value. If `gate` is valid and false, the variables keep their values.
std::vector<Operation> MoveVariables(const Scope& scope, absl::Span<const Output> results,
                                     const Output& gate) {
  const Scope s = scope.SubScope("moving_averages");
  const std::vector<bool> ancestors = FindAncestors(s.graph(), results);
  std::vector<Operation> moves;
  for (Node* node : s.graph().Nodes()) {
    Output next = OutputFromAttr(*node, kNextValueAttr);
    if (!s.ok() || !next.valid() || next.node->id() >= static_cast<NodeId>(ancestors.size()) ||
        !ancestors[next.node->id()]) {
      continue;
    }
    const Output handle = node->output(0);
    if (gate.valid()) next = ops::SelectV2(s, gate, next, ops::ReadVariableOp(s, handle));
    moves.push_back(ops::AssignVariableOp(s, handle, next));
  }
  return moves;
}

std::vector<GradientAndVariable> Clip(const Scope& scope, GradientList gradients,
                                      const MinimizeOptions& options) {
  if (options.clipvalue > 0) return ClipByValue(scope, gradients, options.clipvalue);
  if (options.clipnorm > 0) return ClipByNorm(scope, gradients, options.clipnorm);
  if (options.global_clipnorm > 0) {
    return ClipByGlobalNorm(scope, gradients, options.global_clipnorm);
  }
  return gradients;
}

double MultiplierFor(const Output& variable, const MinimizeOptions& options) {
  for (const LearningRateMultiplier& m : options.learning_rate_multipliers) {
    if (m.variables.Contains(variable)) return m.multiplier;
  }
  return 1;
}

Operation Join(const Scope& scope, absl::Span<const Operation> operations) {
  if (!scope.ok()) return Operation();
  return operations.size() == 1 ? operations[0]
                                : ops::Group(scope.SubScope("train_step"), operations);
}

}  // namespace

Operation Optimizer::Finish(const Scope&, const Shared&, absl::Span<const Operation>,
                            Output) const {
  return Operation();
}

Optimizer::Shared Optimizer::Prepare(const Scope&, Output learning_rate, Output) const {
  return {learning_rate};
}

Operation Optimizer::UpdateVariables(const Scope& s,
                                     absl::Span<const GradientAndVariable> gradients, Output gate,
                                     const MinimizeOptions& options) const {
  const DataType dtype = s.graph().values().at(gradients[0].variable).handle_dtype;
  const LearningRateSchedule& schedule = learning_rate_.schedule();
  std::optional<Variable> count;  // the number of updates
  Output before, step;
  if (schedule || counts_steps() || options.use_ema) {
    count = CreateOptimizerState(s, "global_step", {}, initializers::Zeros(), DT_INT64);
    before = ops::Cast(s, count->value, dtype);
  }
  if (!s.ok()) return Operation();
  if (counts_steps()) step = Term(s, before) + 1;
  const Output rate =
      schedule ? schedule(s, before)
               : ops::ScalarConst(s.WithName("learning_rate"), dtype, learning_rate_.value());
  if (!s.ok()) return Operation();
  const Shared shared = Prepare(s, rate, step);
  std::vector<Operation> operations;
  for (const GradientAndVariable& gv : gradients) {
    if (!s.ok()) return Operation();
    VariableUpdate update(s, gv, gate);
    Shared own = shared;
    const double multiplier = MultiplierFor(gv.variable, options);
    if (multiplier != 1) own[0] = Term(s, rate) * multiplier;
    double decay = 0;
    if (!options.exclude_from_weight_decay.Contains(gv.variable)) {
      decay = options.weight_decay.value_or(weight_decay(update));
    }
    if (decay != 0) update.Subtract(update.Read() * (update.term(own[0]) * decay));
    Update(update, own);
    if (options.use_ema) {
      AddMovingAverage(update, count->value,
                       {options.ema_momentum, options.ema_overwrite_frequency});
    }
    operations.insert(operations.end(), update.operations().begin(), update.operations().end());
  }
  if (!s.ok()) return Operation();
  const Operation last = Finish(s, shared, operations, gate);
  if (last.valid()) operations.push_back(last);
  if (count.has_value()) {
    const Output one =
        gate.valid() ? ops::Cast(s, gate, DT_INT64) : ops::ScalarConst(s, DT_INT64, 1);
    operations.push_back(ops::AssignAddVariableOp(s, count->handle, one));
  }
  return s.ok() ? ops::Group(s, operations) : Operation();
}

bool Optimizer::Check(const Scope& scope, const MinimizeOptions& options) const {
  if (absl::Status status = CheckMinimizeOptions(scope.graph(), options); !status.ok()) {
    scope.Fail(std::move(status));
  }
  return CheckNumbers(scope, name_, {{"learning_rate", learning_rate_.value(), kNotNegative}}) &&
         CheckNumbers(scope, name_, numbers_);
}

Operation Optimizer::ClipAndUpdate(const Scope& scope, GradientList gradients, Output gate,
                                   const MinimizeOptions& options) const {
  if (!scope.ok()) return Operation();
  gradients = Clip(scope, std::move(gradients), options);
  if (!scope.ok()) return Operation();
  return UpdateVariables(scope.SubScope("train"), gradients, gate, options);
}

Operation Optimizer::ApplyGradients(const Scope& scope,
                                    absl::Span<const GradientAndVariable> gradients, Output gate,
                                    const MinimizeOptions& options) const {
  if (!scope.ok() || !Check(scope, options)) return Operation();
  if (absl::Status status = CheckGradients(scope.graph(), gradients, gate); !status.ok()) {
    scope.Fail(std::move(status));
    return Operation();
  }
  if (gradients.empty()) return Operation();
  std::vector<Operation> operations;
  GradientList reduced(gradients.begin(), gradients.end());
  if (options.reduce != nullptr) {
    ReducedGradients result = ReduceGradients(scope, gradients, options.reduce, gate);
    reduced = std::move(result.gradients);
    operations = std::move(result.updates);
  }
  operations.push_back(ClipAndUpdate(scope, std::move(reduced), gate, options));
  if (!scope.ok()) return Operation();
  std::vector<Output> results = {gate};
  for (const GradientAndVariable& gv : gradients) results.push_back(gv.gradient);
  for (const Operation& move : MoveVariables(scope, results, gate)) operations.push_back(move);
  return Join(scope, operations);
}

Operation Optimizer::Minimize(const Scope& scope, Output loss,
                              const MinimizeOptions& options) const {
  if (!scope.ok() || !loss.valid() || !Check(scope, options)) return Operation();
  std::vector<Output> variables = options.variables;
  if (variables.empty()) variables = TrainableVariables(scope.graph());
  std::optional<LossScale> scale;
  if (options.loss_scale.has_value()) scale.emplace(scope, *options.loss_scale);
  GradientList gradients =
      ComputeGradients(scope, scale.has_value() ? scale->Scale(loss) : loss, variables);
  if (!scope.ok()) return Operation();
  Output gate = ops::IsFinite(scope.SubScope("gate"), loss);
  if (options.accumulate_steps == 1 && !scale.has_value()) {
    return ApplyGradients(scope, gradients, gate, options);
  }
  // The layers' moving averages change in every step with a finite loss.
  std::vector<Output> results = {loss};
  for (const GradientAndVariable& gv : gradients) results.push_back(gv.gradient);
  std::vector<Operation> operations = MoveVariables(scope, results, gate);
  Output counts;
  if (options.accumulate_steps > 1) {
    const Output weight =
        options.accumulate_weight.valid() ? options.accumulate_weight : RowsOfBatch(scope, loss);
    AccumulatedGradients sums =
        AccumulateGradients(scope, gradients, loss, weight, options.accumulate_steps,
                            /*may_overflow=*/scale.has_value());
    gradients = std::move(sums.gradients);
    gate = sums.gate;
    counts = sums.is_last;
    operations.insert(operations.end(), sums.updates.begin(), sums.updates.end());
  }
  if (options.reduce != nullptr) {
    ReducedGradients reduced = ReduceGradients(scope, gradients, options.reduce, gate);
    gradients = std::move(reduced.gradients);
    operations.insert(operations.end(), reduced.updates.begin(), reduced.updates.end());
  }
  if (!scope.ok()) return Operation();
  if (scale.has_value()) {
    const Output all_finite = scale->AllFinite(gradients);
    for (const Operation& o : scale->Adapt(all_finite, counts)) operations.push_back(o);
    gradients = scale->Unscale(gradients);
    gate = ops::LogicalAnd(scope.SubScope("gate"), gate, all_finite);
  }
  operations.push_back(ClipAndUpdate(scope, std::move(gradients), gate, options));
  return Join(scope, operations);
}

}  // namespace mirrorflow
