// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fuse_keras_adam.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "framework/core/status.h"
#include "framework/graph/variable_handle.h"
#include "ops/binary.h"
#include "ops/fused_ops.h"
#include "ops/passes/match.h"
#include "ops/unary.h"
#include "ops/update.h"
#include "ops/variable.h"

namespace mirrorflow {
namespace {

// The update of a moving average of `of`: average.assign_add((of - average) * rate).
struct MovingAverage {
  Node* assign = nullptr;
  Output handle, of, rate;
};

struct Adam {
  Node* assign;  // of the variable
  MovingAverage m, v;
  Output alpha, epsilon, gradient;
  // The nodes that compute the update, including the assignments.
  std::set<Node*> nodes;
};

class Finder {
 public:
  explicit Finder(const Compilation& c) : c_(c) {
    for (Node* node : c.graph.Nodes()) {
      std::set<std::string> names;
      for (const Output& input : node->inputs()) {
        if (input.dtype() != DT_RESOURCE) continue;
        if (const absl::StatusOr<std::string> name = VariableName(input); name.ok()) {
          names.insert(*name);
        }
      }
      for (const std::string& name : names) accesses_[name].push_back(node);
    }
  }

  // Returns the update that ends with `assign`; nullopt if it is something else.
  std::optional<Adam> Find(Node* assign) const {
    if (assign->op().name != ops::kAssignSubVariable) return std::nullopt;
    Adam adam = {.assign = assign, .nodes = {assign}};
    const Output quotient = Inner(assign->input(1), ops::kRealDiv, &adam);
    if (!quotient.valid()) return std::nullopt;
    const Output product = Inner(quotient.node->input(0), ops::kMul, &adam);
    const Output sum = Inner(quotient.node->input(1), ops::kAddV2, &adam);
    if (!product.valid() || !sum.valid()) return std::nullopt;
    for (const int i : {0, 1}) {
      const Output root = Inner(sum.node->input(i), ops::kSqrt, &adam);
      if (!root.valid() || !FindAverage(root.node->input(0), &adam, &adam.v)) continue;
      adam.epsilon = sum.node->input(1 - i);
    }
    for (const int i : {0, 1}) {
      if (!FindAverage(product.node->input(i), &adam, &adam.m)) continue;
      adam.alpha = product.node->input(1 - i);
    }
    if (!adam.epsilon.valid() || !adam.alpha.valid()) return std::nullopt;
    adam.gradient = adam.m.of;
    const Output square = Inner(adam.v.of, ops::kSquare, &adam);
    if (!square.valid() || square.node->input(0) != adam.gradient) return std::nullopt;
    return CanFuse(adam) ? std::make_optional(adam) : std::nullopt;
  }

 private:
  const Shape& shape(const Output& output) const { return c_.values().shape(output); }

  // Returns `value` if it is the result of an `op` without control inputs and nothing else uses it,
  // and adds its node to the update. Otherwise, returns an invalid output.
  Output Inner(const Output& value, absl::string_view op, Adam* adam) const {
    if (!IsFree(value, op) || !c_.IsUsedOnce(value)) return Output();
    adam->nodes.insert(value.node);
    return value;
  }

  // Finds the update of the moving average that `value` reads after the update.
  bool FindAverage(const Output& value, Adam* adam, MovingAverage* average) const {
    Node* const read = value.node;
    if (!IsReadOnce(value) || read->control_inputs().size() != 1) return false;
    Node* const assign = read->control_inputs()[0];
    if (assign->op().name != ops::kAssignAddVariable) return false;
    const Output handle = assign->input(0);
    const absl::StatusOr<std::string> name = VariableName(handle);
    if (!name.ok() || !TakesVariable(*read, *name)) return false;
    Adam grown = *adam;
    const Output step = Inner(assign->input(1), ops::kMul, &grown);
    if (!step.valid()) return false;
    for (const int i : {0, 1}) {
      const Output difference = Inner(step.node->input(i), ops::kSub, &grown);
      if (!difference.valid()) continue;
      const Output old = difference.node->input(1);
      // Any other access might see the average between the two updates.
      if (!IsReadOnce(old) || !old.node->control_inputs().empty() ||
          !TakesVariable(*old.node, *name) || accesses_.at(*name).size() != 3) {
        return false;
      }
      grown.nodes.insert({assign, read, old.node});
      *adam = std::move(grown);
      *average = {assign, handle, difference.node->input(0), step.node->input(1 - i)};
      return true;
    }
    return false;
  }

  // Returns whether the value is a variable that is read for a single operand.
  bool IsReadOnce(const Output& value) const {
    return value.node->op().role == OpRole::kRead && !c_.IsFetched(value) &&
           absl::c_count_if(value.node->uses(), [](const Use& use) { return use.slot >= 0; }) == 1;
  }

  bool CanFuse(const Adam& adam) const {
    const DataType dtype = adam.gradient.dtype();
    const Shape& whole = shape(adam.gradient);
    for (const Output& scalar : {adam.alpha, adam.epsilon, adam.m.rate, adam.v.rate}) {
      if (scalar.dtype() != dtype || shape(scalar).rank() != 0) return false;
    }
    for (const Output& handle : {adam.assign->input(0), adam.m.handle, adam.v.handle}) {
      const Node& variable = VariableOf(handle);
      if (variable.op().role != OpRole::kVariable || variable.attr<DataType>("dtype") != dtype ||
          variable.attr<Shape>("shape") != whole) {
        return false;
      }
    }
    return (dtype == DT_FLOAT || dtype == DT_DOUBLE) && whole.IsFullyDefined() &&
           adam.m.assign != adam.v.assign && !DependsOnItself(adam);
  }

  // Returns whether an operand or a control input of the update follows a part of the update, such
  // as the assignment of a slot.
  bool DependsOnItself(const Adam& adam) const {
    std::set<const Node*> before = {adam.gradient.node, adam.alpha.node, adam.epsilon.node,
                                    adam.m.rate.node, adam.v.rate.node};
    for (const Node* node : {adam.assign, adam.m.assign, adam.v.assign}) {
      for (Node* control : node->control_inputs()) {
        if (!adam.nodes.contains(control)) before.insert(control);
      }
    }
    std::set<const Node*> seen;
    std::vector<const Node*> follow;
    const auto see_users = [&](const Node& node) {
      for (const Use& use : node.uses()) {
        if (!adam.nodes.contains(use.user) && seen.insert(use.user).second) {
          follow.push_back(use.user);
        }
      }
    };
    for (const Node* node : adam.nodes) see_users(*node);
    while (!follow.empty()) {
      const Node* const node = follow.back();
      follow.pop_back();
      if (before.contains(node)) return true;
      see_users(*node);
    }
    return false;
  }

  const Compilation& c_;
  std::map<std::string, std::vector<const Node*>> accesses_;  // by variable
};

absl::Status Fuse(Compilation& c, const Adam& adam) {
  MF_ASSIGN_OR_RETURN(const OpDef* op, FusedOps().Lookup(ops::kResourceApplyKerasAdam));
  std::vector<Node*> before;
  for (const Node* node : adam.nodes) {
    for (Node* control : node->control_inputs()) {
      if (!adam.nodes.contains(control)) before.push_back(control);
    }
  }
  MF_ASSIGN_OR_RETURN(
      Node* const fused,
      c.graph.AddNode(c.graph.UniqueName(adam.assign->name()), *op, {{"T", adam.gradient.dtype()}},
                      {adam.assign->input(0), adam.m.handle, adam.v.handle, adam.alpha, adam.m.rate,
                       adam.v.rate, adam.epsilon, adam.gradient},
                      before));
  for (Node* node : adam.nodes) c.ReplaceOperation(node, fused);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> FuseKerasAdam::Run(Compilation& c) {
  const Finder finder(c);
  std::vector<Adam> updates;
  for (Node* node : c.graph.Nodes()) {
    if (std::optional<Adam> adam = finder.Find(node)) updates.push_back(*std::move(adam));
  }
  for (const Adam& adam : updates) MF_RETURN_IF_ERROR(Fuse(c, adam));
  return !updates.empty() && c.RemoveDeadNodes();
}

}  // namespace mirrorflow
