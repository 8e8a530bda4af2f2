// SPDX-License-Identifier: Apache-2.0
//
// Resolves two questions before the step runs: whether a variable has a value, and which branch an
// If takes if its predicate follows from the first answer or from constants. The taken branch
// replaces the If, so the other branch may read a variable without a value: `initialised ? read :
// initial value`.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_KNOWN_BRANCHES_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_KNOWN_BRANCHES_H_

#include <cstdint>
#include <vector>

#include "framework/compiler/pass.h"
#include "framework/graph/function_body.h"

namespace mirrorflow {

// The context of a query: a step, or a function in one of its branches or loops.
struct Enclosing {
  Compilation& step;
  std::vector<const Node*> nodes = {};  // enclosing branches and loops, outermost first
  int64_t visits = int64_t{1} << 28;    // how many more nodes queries may visit
};

// Replaces `node`, which queries whether a variable is initialised, with a constant. Returns
// Unimplemented if the variables' states before the step are unknown.
absl::Status AnswerHasValue(Compilation& c, Node* node, Enclosing& around);

// Replaces an If with the nodes of `body`, the branch that it takes.
absl::Status TakeBranch(Compilation& c, Node* node, FunctionBody body);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_KNOWN_BRANCHES_H_
