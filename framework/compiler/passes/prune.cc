// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/passes/prune.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/error_list.h"

namespace mirrorflow {

namespace {

// A graph may have ops that are not known here, but not where the step needs them.
absl::Status CheckOps(const Compilation& c) {
  ErrorList errors;
  for (const Node* node : c.graph.Nodes()) {
    if (node->op().role != OpRole::kUnknown || errors.full()) continue;
    const absl::Status unknown = c.ops->Lookup(node->op().name).status();
    errors.Add(absl::StrCat(
        Printable(node->op().name), "(", node->name(), "): ",
        unknown.ok() ? "it handles text, which no tensor here can hold" : unknown.message()));
  }
  return errors.ToStatus();
}

}  // namespace

absl::StatusOr<bool> Prune::Run(Compilation& c) {
  bool changed = false;
  for (Output& feed : c.feeds) {
    if (feed.node->op().role == OpRole::kPlaceholder) continue;
    const OpDef* placeholder = c.ops->FindRole(OpRole::kPlaceholder);
    if (placeholder == nullptr) return absl::InternalError("no op has the role of a placeholder");
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
  MF_RETURN_IF_ERROR(CheckOps(c));
  return changed;
}

}  // namespace mirrorflow
