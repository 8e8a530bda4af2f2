// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "framework/runtime/variable_layout.h"
#include "ops/add_n.h"
#include "ops/binary.h"
#include "ops/cast.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/gradients.h"
#include "ops/reduction.h"
#include "ops/select.h"
#include "ops/unary.h"
#include "ops/update.h"
#include "ops/variable.h"
#include "train/graph_walk.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

std::vector<Output> Gates(Output gate) {
  return gate.valid() ? std::vector<Output>{gate} : std::vector<Output>{};
}

// A variable that only the optimizer uses.
Variable State(const Scope& scope, absl::string_view name, const Shape& shape,
               const Initializer& initializer, DataType dtype) {
  const Variable state =
      CreateVariable(scope, name, shape, initializer, dtype, {.trainable = false});
  if (scope.ok()) scope.graph().SetAttr(state.handle.node, kOptimizerStateAttr, true);
  return state;
}

// Creates the slots `names` of `variable` in a scope that has its name. They start at `initial`.
std::vector<Output> Slots(const Scope& scope, const Output& variable,
                          std::initializer_list<absl::string_view> names, double initial = 0) {
  const ValueInfo info = scope.graph().values().at(variable);
  const Scope slots = scope.SubScope(variable.node->name());
  std::vector<Output> handles;
  for (absl::string_view name : names) {
    handles.push_back(
        State(slots, name, info.handle_shape, initializers::Constant(initial), info.handle_dtype)
            .handle);
  }
  return handles;
}

DataType DTypeOf(const Scope& scope, const Output& variable) {
  return scope.graph().values().at(variable).handle_dtype;
}

// Assigns to each variable its next value (kNextValueAttr) if `results` depend on the node that
// computes it. If `gate` is valid and false, the variables keep their values.
std::vector<Operation> MoveVariables(const Scope& scope, absl::Span<const Output> results,
                                     const Output& gate) {
  const Scope s = scope.SubScope("moving_averages");
  const std::vector<bool> ancestors = FindAncestors(s.graph(), results);
  std::vector<Operation> moves;
  for (Node* node : s.graph().Nodes()) {
    if (!s.ok() || !node->has_attr(kNextValueAttr)) continue;
    Output next = FindOutput(s.graph(), node->attr<std::string>(kNextValueAttr));
    if (!next.valid() || next.node->id() >= static_cast<NodeId>(ancestors.size()) ||
        !ancestors[next.node->id()]) {
      continue;
    }
    const Output handle = node->output(0);
    if (gate.valid()) next = ops::SelectV2(s, gate, next, ops::ReadVariableOp(s, handle));
    moves.push_back(ops::AssignVariableOp(s, handle, next));
  }
  return moves;
}

absl::Status CheckUpdates(const Graph& graph, absl::Span<const GradientAndVariable> gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string where = absl::StrCat("apply_gradients, pair ", i);
    MF_RETURN_IF_ERROR(Annotate(graph.CheckOwns(gradients[i].gradient), where));
    MF_RETURN_IF_ERROR(Annotate(graph.CheckOwns(gradients[i].variable), where));
    if (gradients[i].variable.dtype() == DT_RESOURCE) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": '", gradients[i].variable.ToString(),
        "' is not a variable's handle; expected Variable::handle, got a value of dtype ",
        DataTypeName(gradients[i].variable.dtype())));
  }
  return absl::OkStatus();
}

// Explains why no gradient of `loss` reaches any of `variables`.
std::string WhyNoGradient(const Graph& graph, const Output& loss,
                          absl::Span<const Output> variables) {
  if (variables.empty()) return "the graph has no trainable variable";
  const std::vector<bool> ancestors = FindAncestors(graph, {loss});
  std::vector<bool> depends(graph.id_limit());
  for (const Output& variable : variables) {
    if (graph.Owns(variable.node)) depends[variable.node->id()] = true;
  }
  const absl::StatusOr<std::vector<Node*>> order = TopologicalOrder(graph);
  if (!order.ok()) return std::string(order.status().message());
  std::string ends;  // an op between a variable and the loss that has no gradient
  for (const Node* node : *order) {
    for (const Output& in : node->inputs()) {
      if (depends[in.node->id()]) depends[node->id()] = true;
    }
    if (!depends[node->id()] || !ancestors[node->id()] || node->op().gradient != nullptr) continue;
    const OpRole role = node->op().role;
    if (role == OpRole::kVariable || role == OpRole::kRead) continue;
    if (ends.empty()) {
      ends = absl::StrCat(OpAndName(*node), " (", node->op().no_gradient_reason, ")");
    }
  }
  if (!depends[loss.node->id()]) {
    return absl::StrCat("it depends on none of the ", variables.size(), " trainable variables");
  }
  return absl::StrCat("it depends on variables only through ops without a gradient",
                      ends.empty() ? "" : ", such as ", ends);
}

}  // namespace

std::vector<GradientAndVariable> Optimizer::ComputeGradients(const Scope& scope, Output loss,
                                                             absl::Span<const Output> variables) {
  std::vector<GradientAndVariable> result;
  if (!scope.ok() || !loss.valid()) return result;
  const Shape& shape = scope.shape(loss);
  if (shape.unknown_rank() || shape.rank() != 0) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat(
        "minimize(", loss.ToString(), "): expected a scalar loss, got shape ", shape.ToString())));
    return result;
  }
  absl::StatusOr<std::vector<Output>> gradients = Gradients(scope, {loss}, variables);
  if (!gradients.ok()) {
    scope.Fail(gradients.status());
    return result;
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    if ((*gradients)[i].valid()) result.push_back({(*gradients)[i], variables[i]});
  }
  if (result.empty()) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat(
        "minimize(", loss.ToString(), "): no gradient of the loss reaches a variable: ",
        WhyNoGradient(scope.graph(), loss, variables))));
  }
  return result;
}

Operation Optimizer::ApplyGradients(const Scope& scope,
                                    absl::Span<const GradientAndVariable> gradients,
                                    Output gate) const {
  if (!scope.ok() || gradients.empty()) return Operation();
  if (absl::Status status = CheckUpdates(scope.graph(), gradients); !status.ok()) {
    scope.Fail(std::move(status));
    return Operation();
  }
  const Scope s = scope.SubScope("train");
  const DataType dtype = DTypeOf(s, gradients[0].variable);
  const LearningRateSchedule& schedule = learning_rate().schedule();
  Variable step;
  Output rate;
  if (schedule) {
    step = State(s, "global_step", {}, initializers::Zeros(), DT_INT64);
    rate = schedule(s, ops::Cast(s, step.value, dtype));
  } else {
    rate = ops::ScalarConst(s.WithName("learning_rate"), dtype, learning_rate().value());
  }
  if (!s.ok()) return Operation();
  const Shared shared = Prepare(s, rate);
  std::vector<Operation> updates;
  for (const GradientAndVariable& gv : gradients) {
    if (!s.ok()) return Operation();
    updates.push_back(Update(s, gv, shared, gate));
  }
  const Operation last = Finish(s, shared, updates, gate);
  if (last.valid()) updates.push_back(last);
  if (schedule && s.ok()) {
    const Output one =
        gate.valid() ? ops::Cast(s, gate, DT_INT64) : ops::ScalarConst(s, DT_INT64, 1);
    updates.push_back(ops::AssignAddVariableOp(s, step.handle, one));
  }
  if (!s.ok()) return Operation();
  std::vector<Output> results = {gate};
  for (const GradientAndVariable& gv : gradients) results.push_back(gv.gradient);
  for (const Operation& move : MoveVariables(scope, results, gate)) updates.push_back(move);
  return s.ok() ? ops::Group(s, updates) : Operation();
}

Operation Optimizer::Minimize(const Scope& scope, Output loss,
                              const MinimizeOptions& options) const {
  std::vector<Output> variables = options.variables;
  if (variables.empty()) variables = TrainableVariables(scope.graph());
  std::vector<GradientAndVariable> gradients = ComputeGradients(scope, loss, variables);
  if (!scope.ok()) return Operation();
  if (options.clip_norm > 0) gradients = ClipByGlobalNorm(scope, gradients, options.clip_norm);
  const Output gate = ops::IsFinite(scope.SubScope("gate"), loss);
  return ApplyGradients(scope, gradients, gate);
}

std::vector<GradientAndVariable> ClipByGlobalNorm(const Scope& scope,
                                                  absl::Span<const GradientAndVariable> gradients,
                                                  double clip_norm) {
  const Scope s = scope.SubScope("clip_by_global_norm");
  std::vector<Output> squares;
  for (const GradientAndVariable& gv : gradients) {
    const Shape& shape = s.shape(gv.gradient);
    std::vector<int64_t> axes;
    for (int d = 0; d < (shape.unknown_rank() ? 0 : shape.rank()); ++d) axes.push_back(d);
    squares.push_back(ops::Sum(s, ops::Square(s, gv.gradient), axes));
  }
  if (squares.empty() || !s.ok()) return {};
  const Output norm = ops::Sqrt(s, ops::AddN(s, squares));
  const Output limit = ops::ScalarConst(s, norm.dtype(), clip_norm);
  // 1 if the norm is below the limit; never divides by zero.
  const Output factor = ops::RealDiv(s, limit, ops::Maximum(s, norm, limit));
  std::vector<GradientAndVariable> clipped;
  for (const GradientAndVariable& gv : gradients) {
    clipped.push_back({ops::Mul(s, gv.gradient, factor), gv.variable});
  }
  return clipped;
}

Operation Optimizer::Finish(const Scope&, const Shared&, absl::Span<const Operation>,
                            Output) const {
  return Operation();
}

Optimizer::Shared GradientDescent::Prepare(const Scope& scope, Output learning_rate) const {
  return {learning_rate};
}

Operation GradientDescent::Update(const Scope& scope, const GradientAndVariable& gv,
                                  const Shared& shared, Output gate) const {
  return ops::ResourceApplyGradientDescent(scope, gv.variable, shared[0], gv.gradient,
                                           {.gates = Gates(gate)});
}

Optimizer::Shared Momentum::Prepare(const Scope& scope, Output learning_rate) const {
  return {learning_rate,
          ops::ScalarConst(scope.WithName("momentum"), learning_rate.dtype(), options_.momentum)};
}

Operation Momentum::Update(const Scope& scope, const GradientAndVariable& gv, const Shared& shared,
                           Output gate) const {
  const std::vector<Output> slots = Slots(scope, gv.variable, {"momentum"});
  return ops::ResourceApplyMomentum(scope, gv.variable, slots[0], shared[0], gv.gradient, shared[1],
                                    {.use_nesterov = options_.use_nesterov, .gates = Gates(gate)});
}

// Order: learning_rate, beta1_power, beta2_power, beta1, beta2, epsilon, the handles of the two
// powers and, with weight decay, the fraction by which a weight decays.
Optimizer::Shared Adam::Prepare(const Scope& scope, Output learning_rate) const {
  const DataType dtype = learning_rate.dtype();
  auto power = [&](absl::string_view name, double beta) {
    return State(scope, name, {}, initializers::Constant(beta), dtype);
  };
  auto scalar = [&](absl::string_view name, double value) {
    return ops::ScalarConst(scope.WithName(name), dtype, value);
  };
  const Variable beta1_power = power("beta1_power", options_.beta1);
  const Variable beta2_power = power("beta2_power", options_.beta2);
  Shared shared = {learning_rate,
                   beta1_power.value,
                   beta2_power.value,
                   scalar("beta1", options_.beta1),
                   scalar("beta2", options_.beta2),
                   scalar("epsilon", options_.epsilon),
                   beta1_power.handle,
                   beta2_power.handle};
  if (weight_decay_ != 0) {
    shared.push_back(ops::Mul(scope, learning_rate, scalar("weight_decay", weight_decay_)));
  }
  return shared;
}

Operation Adam::Update(const Scope& scope, const GradientAndVariable& gv, const Shared& shared,
                       Output gate) const {
  const Shared& v = shared;
  const std::vector<Output> slots = Slots(scope, gv.variable, {"m", "v"});
  Scope update = scope;
  if (weight_decay_ != 0) {
    const Output value = ops::ReadVariableOp(scope, gv.variable);
    Output decay = ops::Mul(scope, value, v[8]);
    if (gate.valid()) {
      decay = ops::SelectV2(scope, gate, decay, ops::ScalarConst(scope, decay.dtype(), 0));
    }
    update = scope.WithControlDependencies({ops::AssignSubVariableOp(scope, gv.variable, decay)});
  }
  return ops::ResourceApplyAdam(update, gv.variable, slots[0], slots[1],
                                {v[1], v[2], v[0], v[3], v[4], v[5]}, gv.gradient,
                                {.gates = Gates(gate)});
}

// Multiplies each power by its beta once per step, after all updates have read it, and only if the
// step updates the variables.
Operation Adam::Finish(const Scope& scope, const Shared& shared,
                       absl::Span<const Operation> updates, Output gate) const {
  const Shared& v = shared;
  const Scope after = scope.WithControlDependencies(updates);
  std::vector<Operation> assigns;
  for (int i = 0; i < 2; ++i) {
    Output next = ops::Mul(scope, v[1 + i], v[3 + i]);
    if (gate.valid()) next = ops::SelectV2(scope, gate, next, v[1 + i]);
    assigns.push_back(ops::AssignVariableOp(after, v[6 + i], next));
  }
  return scope.ok() ? ops::Group(scope, assigns) : Operation();
}

// Order: learning_rate, epsilon.
Optimizer::Shared Adagrad::Prepare(const Scope& scope, Output learning_rate) const {
  return {learning_rate,
          ops::ScalarConst(scope.WithName("epsilon"), learning_rate.dtype(), options_.epsilon)};
}

Operation Adagrad::Update(const Scope& scope, const GradientAndVariable& gv, const Shared& shared,
                          Output gate) const {
  const std::vector<Output> slots =
      Slots(scope, gv.variable, {"accumulator"}, options_.initial_accumulator_value);
  return ops::ResourceApplyAdagradV2(scope, gv.variable, slots[0], shared[0], shared[1],
                                     gv.gradient, {.gates = Gates(gate)});
}

// Order: learning_rate, rho, momentum, epsilon.
Optimizer::Shared RMSProp::Prepare(const Scope& scope, Output learning_rate) const {
  auto scalar = [&](absl::string_view name, double value) {
    return ops::ScalarConst(scope.WithName(name), learning_rate.dtype(), value);
  };
  return {learning_rate, scalar("rho", options_.rho), scalar("momentum", options_.momentum),
          scalar("epsilon", options_.epsilon)};
}

Operation RMSProp::Update(const Scope& scope, const GradientAndVariable& gv, const Shared& shared,
                          Output gate) const {
  const Shared& v = shared;
  const std::vector<Output> slots = Slots(scope, gv.variable, {"rms", "momentum"});
  return ops::ResourceApplyRMSProp(scope, gv.variable, slots[0], slots[1], v[0], v[1], v[2], v[3],
                                   gv.gradient, {.gates = Gates(gate)});
}

}  // namespace mirrorflow
