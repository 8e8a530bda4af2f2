// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/moving_average.h"

#include <string>
#include <vector>

#include "ops/binary.h"
#include "ops/control.h"
#include "ops/select.h"
#include "ops/variable.h"
#include "train/graph_walk.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

// Attributes of a variable's handle. They name two outputs (in the form `node:1`): the handle of
// the variable's average, and the number of updates.
constexpr char kAverageAttr[] = "_moving_average";
constexpr char kCountAttr[] = "_moving_average_count";

CopyOptions AverageChanges() { return {.prefix = "averaged", .replacement_attr = kAverageAttr}; }

}  // namespace

void AddMovingAverage(VariableUpdate& update, Output step, const MovingAverageOptions& options) {
  const Scope& s = update.scope();
  const Variable average = update.Slot("average");
  if (!s.ok()) return;
  Graph& graph = s.graph();
  graph.SetAttr(update.variable().node, kAverageAttr, average.handle.ToString());
  graph.SetAttr(update.variable().node, kCountAttr, step.ToString());
  const Term before = update.term(average.value), value = update.Read();
  const Output is_first = ops::Equal(s, step, update.term(step).Number(0));
  const Term momentum =
      update.term(ops::SelectV2(s, is_first, value.Number(0), value.Number(options.momentum)));
  const Term next = momentum * before + (1 - momentum) * value;
  update.Assign(average, next);
  if (options.overwrite_frequency == 0) return;
  const Term count = update.term(step) + 1;
  const double frequency = static_cast<double>(options.overwrite_frequency);
  const Output is_due =
      ops::Equal(s, ops::FloorMod(s, count, count.Number(frequency)), count.Number(0));
  update.AssignVariable(ops::SelectV2(s, is_due, next, value));
}

Output WithMovingAverages(const Scope& scope, Output output) {
  return CopyWithChanges(scope, output, AverageChanges());
}

Operation WithMovingAverages(const Scope& scope, Operation operation) {
  return CopyWithChanges(scope, operation, AverageChanges());
}

Operation FinalizeVariableValues(const Scope& scope) {
  const Scope s = scope.SubScope("finalize");
  std::vector<Operation> assigns;
  for (Node* node : s.graph().Nodes()) {
    const Output average = OutputFromAttr(*node, kAverageAttr);
    const Output count = OutputFromAttr(*node, kCountAttr);
    if (!s.ok() || !average.valid() || !count.valid()) continue;
    const Output handle = node->output(0);
    const Output has_average = ops::Greater(s, count, Term(s, count).Number(0));
    assigns.push_back(
        ops::AssignVariableOp(s, handle,
                              ops::SelectV2(s, has_average, ops::ReadVariableOp(s, average),
                                            ops::ReadVariableOp(s, handle))));
  }
  if (s.ok() && assigns.empty()) {
    s.Fail(absl::InvalidArgumentError(
        "finalize_variable_values: no variable has a moving average; set use_ema = true in the "
        "optimizer's MinimizeOptions"));
  }
  return s.ok() ? ops::Group(s, assigns) : Operation();
}

}  // namespace mirrorflow
