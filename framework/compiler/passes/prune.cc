// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/passes/prune.h"

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {

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
  return c.RemoveDeadNodes() || changed;
}

}  // namespace mirrorflow
