// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/passes/merge_loops.h"

#include <algorithm>
#include <vector>

#include "ops/control_flow/loop_gradient.h"

namespace mirrorflow {
namespace {

bool SameFunction(const Node& loop, const char* attr, const Node& with_history,
                  const char* instead) {
  return loop.attrs().find(attr)->second == with_history.attrs().find(instead)->second;
}

bool DoesTheSame(const Node& with_history, const Node& loop) {
  if (&loop == &with_history || loop.op().role != OpRole::kLoop) return false;
  if (loop.num_inputs() > with_history.num_inputs()) return false;
  // In a graph from a file, the loop with histories can depend on the loop that it would replace.
  for (const Output& further : with_history.inputs().subspan(loop.num_inputs())) {
    if (further.node == &loop) return false;
  }
  return std::equal(loop.inputs().begin(), loop.inputs().end(), with_history.inputs().begin()) &&
         SameFunction(loop, "cond", with_history, kInsteadOfCond) &&
         SameFunction(loop, "body", with_history, kInsteadOfBody);
}

}  // namespace

bool MergeLoops(Compilation& c) {
  bool changed = false;
  for (Node* with_history : c.graph.Nodes()) {
    const bool is_one = with_history->op().role == OpRole::kLoop &&
                        with_history->has_attr(kInsteadOfCond) &&
                        with_history->has_attr(kInsteadOfBody);
    if (!is_one || with_history->num_inputs() == 0) continue;
    // The loop to replace, if it exists, uses the same inputs.
    Node* loop = nullptr;
    for (const Use& use : with_history->input(0).node->uses()) {
      if (DoesTheSame(*with_history, *use.user)) loop = use.user;
    }
    if (loop == nullptr) continue;
    for (int i = 0; i < loop->num_outputs(); ++i) {
      c.ReplaceValue(loop->output(i), with_history->output(i));
    }
    c.ReplaceOperation(loop, with_history);
    changed = true;
  }
  if (changed) c.RemoveDeadNodes();
  return changed;
}

}  // namespace mirrorflow
