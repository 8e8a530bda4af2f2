// SPDX-License-Identifier: Apache-2.0
//
// What is known of branches before the step runs: whether a variable has a value, and which branch
// an If takes whose predicate follows from that, or from constants. Such an If is what it takes, so
// the other branch may read what has no value: `initialised ? read : initial value`.
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_KNOWN_BRANCHES_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_KNOWN_BRANCHES_H_

#include <cstdint>
#include <vector>

#include "framework/compiler/pass.h"
#include "framework/graph/function_body.h"

namespace mirrorflow {

// Where questions are asked: in a step, or in functions of its branches and loops.
struct Enclosing {
  Compilation& step;
  std::vector<const Node*> nodes = {};  // the branches and loops around, from the outermost on
  int64_t visits = int64_t{1} << 28;    // of nodes that may still be looked at for answers
};

// Puts a constant in the place of `node`, a question whether a variable is initialised.
// Unimplemented if nobody knows the states of variables before the step.
absl::Status AnswerHasValue(Compilation& c, Node* node, Enclosing& around);

// Puts the nodes of `body`, the branch that is taken, in the place of an If.
absl::Status TakeBranch(Compilation& c, Node* node, FunctionBody body);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_KNOWN_BRANCHES_H_
