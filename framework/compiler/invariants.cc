// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/invariants.h"

#include <algorithm>

namespace mirrorflow {

Invariants::Invariants(const Compilation& c) : c_(c) {
  if (c.layout == nullptr || !c.keeps_forms) return;
  written_.resize(c.layout->variables().size());
  for (const Node* node : c.graph.Nodes()) {
    if (node->op().role != OpRole::kWrite) continue;
    for (const Output& in : node->inputs()) {
      if (in.dtype() != DT_RESOURCE) continue;
      if (const int v = c.layout->FindHandle(in); v >= 0) written_[v] = true;
    }
  }
  const absl::StatusOr<std::vector<Node*>> order = TopologicalOrder(c.graph);
  if (!order.ok()) return;  // ScheduleNodes reports it
  computed_.resize(c.graph.id_limit());
  for (const Node* node : *order) computed_[node->id()] = CanBeComputed(*node);
}

const Node* Invariants::SourceOf(Output value) const {
  if (computed_.empty()) return nullptr;
  while (Computes(value.node->op()) && value.node->op().has(kView)) {
    // The users of the value must run after the nodes that the view waits for, such as an Assert.
    if (!value.node->control_inputs().empty()) return nullptr;
    value = value.node->input(0);
  }
  const Node& node = *value.node;
  if (node.op().role == OpRole::kConstant || IsComputed(node)) return &node;
  if (node.op().role != OpRole::kRead || node.has_attr(kCopyAttr)) return nullptr;
  const int v = c_.layout->FindHandle(node.input(0));
  return v >= 0 && !written_[v] ? &node : nullptr;
}

bool Invariants::CanBeComputed(const Node& node) const {
  const OpDef& op = node.op();
  if (!Computes(op) || op.has(kView) || op.has(kStateful) || IsControlFlow(op)) return false;
  if (node.num_outputs() != 1 || !node.control_inputs().empty()) return false;
  if (!IsReplicated(c_.shardings.at(node.output(0)))) return false;
  int64_t largest = 0;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (SourceOf(node.input(i)) == nullptr) return false;
    if (!node.is_static_input(i)) largest = std::max(largest, c_.ValueBytes(node.input(i)));
  }
  // A form stays in memory as long as the plan, so a form larger than its inputs is not worth the
  // time that it saves.
  return c_.ValueBytes(node.output(0)) <= largest && OnlyKernelsRead(node);
}

bool Invariants::OnlyKernelsRead(const Node& node) const {
  const Output value = node.output(0);
  if (node.uses().empty()) return false;  // a target, which each step must run
  if (c_.IsFetched(value)) return false;
  return std::all_of(node.uses().begin(), node.uses().end(), [this](const Use& use) {
    const OpDef& op = use.user->op();
    if (use.slot == Use::kControl || !Computes(op) || IsControlFlow(op)) return false;
    if (!op.has(kView)) return true;
    return use.user->control_inputs().empty() && OnlyKernelsRead(*use.user);  // as in SourceOf
  });
}

}  // namespace mirrorflow
