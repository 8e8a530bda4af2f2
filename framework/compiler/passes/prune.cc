// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/passes/prune.h"

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Returns true for PlaceholderWithDefault.
bool HasDefault(const Node& node) {
  return node.op().role == OpRole::kPlaceholder && node.num_inputs() > 0;
}

// Replaces each PlaceholderWithDefault with its input; Prune::Run has already replaced those that
// are fed. Returns whether it replaced any.
bool TakeDefaults(Compilation& c) {
  bool changed = false;
  for (Node* node : c.graph.Nodes()) {
    if (!HasDefault(*node)) continue;
    changed = true;
    const Output by_default = node->input(0);
    // The control inputs must still run before the node's users, but need not run before the node's
    // default value.
    const bool is_asked_for = c.IsFetched(node->output(0)) || absl::c_count(c.targets, node) > 0;
    for (Node* control : node->control_inputs()) {
      for (const Use& use : std::vector<Use>(node->uses().begin(), node->uses().end())) {
        c.graph.AddControlEdge(control, use.user);
      }
      if (is_asked_for) c.targets.push_back(control);
    }
    c.ReplaceValue(node->output(0), by_default);
    c.ReplaceOperation(node, by_default.node);
  }
  return changed;
}

// Returns an error if the step needs an unknown op. Nodes that the step does not need may have
// unknown ops.
absl::Status CheckOps(const Compilation& c) {
  ErrorList errors;
  for (const Node* node : c.graph.Nodes()) {
    if (node->op().role != OpRole::kUnknown || errors.full()) continue;
    const absl::Status unknown = c.ops->Lookup(node->op().name).status();
    errors.Add(absl::StrCat(
        Printable(node->op().name), "(", node->name(), "): ",
        unknown.ok() ? "it uses strings or another dtype that Mirrorflow does not support"
                     : unknown.message()));
  }
  return errors.ToStatus();
}

}  // namespace

absl::StatusOr<bool> Prune::Run(Compilation& c) {
  bool changed = false;
  for (Output& feed : c.feeds) {
    if (feed.node->op().role == OpRole::kPlaceholder && !HasDefault(*feed.node)) continue;
    const OpDef* placeholder = c.ops->FindRole(OpRole::kPlaceholder);
    if (placeholder == nullptr) return absl::InternalError("the registry has no placeholder op");
    Node* node = c.scope()
                     .WithName(absl::StrCat(feed.node->name(), "/fed"))
                     .Build(*placeholder)
                     .Attr("dtype", feed.dtype())
                     .Attr("shape", c.values().shape(feed))
                     .Finish();
    MF_RETURN_IF_ERROR(c.graph.status());
    c.ReplaceValue(feed, node->output(0));
    feed = node->output(0);
    changed = true;
  }
  changed |= c.RemoveDeadNodes();
  if (TakeDefaults(c)) changed |= c.RemoveDeadNodes();
  MF_RETURN_IF_ERROR(CheckOps(c));
  return changed;
}

}  // namespace mirrorflow
