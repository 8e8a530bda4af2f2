// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/passes/known_branches.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/variable_handle.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/identity.h"

namespace mirrorflow {
namespace {

absl::Status CheckVariables(const FunctionBody& body) {
  for (const Node* node : body.graph.Nodes()) {
    if (node->op().role != OpRole::kVariable) continue;
    const bool is_given = std::any_of(body.args.begin(), body.args.end(),
                                      [&](const Output& arg) { return arg.node == node; });
    if (is_given) continue;
    return absl::UnimplementedError(
        absl::StrCat("a branch can use only variables that are passed to it; variable '",
                     VariableName(*node), "' is not"));
  }
  return absl::OkStatus();
}

// Returns whether the node is ordered after a write of the variable in the node's own graph.
absl::StatusOr<bool> ComesAfterWrite(const Node& node, const std::string& variable,
                                     int64_t& visits) {
  absl::flat_hash_set<const Node*> seen;
  std::vector<const Node*> pending = {&node};
  while (!pending.empty()) {
    const Node* later = pending.back();
    pending.pop_back();
    if (later->op().role == OpRole::kWrite && TakesVariable(*later, variable)) return true;
    if (--visits < 0) {
      return absl::ResourceExhaustedError(
          "the graph checks too often whether variables are initialised");
    }
    for (const Output& in : later->inputs()) {
      if (seen.insert(in.node).second) pending.push_back(in.node);
    }
    for (const Node* in : later->control_inputs()) {
      if (seen.insert(in).second) pending.push_back(in);
    }
  }
  return false;
}

}  // namespace

absl::Status AnswerHasValue(Compilation& c, Node* node, Enclosing& around) {
  MF_ASSIGN_OR_RETURN(const std::string name, VariableName(node->input(0)));
  MF_ASSIGN_OR_RETURN(bool answer, ComesAfterWrite(*node, name, around.visits));
  for (const Node* outer : around.nodes) {
    if (answer) break;
    MF_ASSIGN_OR_RETURN(answer, ComesAfterWrite(*outer, name, around.visits));
  }
  if (!answer) {
    Compilation& step = around.step;
    const int variable = step.layout->Find(name);
    if (variable < 0) return absl::InternalError(absl::StrCat("no variable '", name, "'"));
    if (step.initialized.empty()) {
      return absl::UnimplementedError(absl::StrCat(
          "whether variable '", name, "' has a value can be determined only in a session"));
    }
    answer = step.initialized[variable];
    std::vector<int>& needed = step.states_needed;
    if (std::find(needed.begin(), needed.end(), variable) == needed.end()) {
      needed.push_back(variable);
    }
  }
  const Output constant = ops::Const(c.scope().WithName(node->name()), Tensor::Scalar(answer));
  MF_RETURN_IF_ERROR(c.graph.status());
  c.ReplaceNode(node, constant);
  return absl::OkStatus();
}

absl::Status TakeBranch(Compilation& c, Node* node, FunctionBody body) {
  MF_RETURN_IF_ERROR(CheckVariables(body));
  // The branch also waits for arguments that it does not use, because variable writes may be
  // ordered before them.
  const std::vector<Operation> before = Predecessors(*node);
  MF_RETURN_IF_ERROR(InlineBody(body, node->inputs().subspan(1), before, c.graph));
  std::vector<Operation> all;
  for (Node* target : body.targets) all.push_back({target});
  all.insert(all.end(), before.begin(), before.end());
  const Scope scope = c.scope().WithName(node->name());
  const Scope after = scope.WithControlDependencies(all);
  for (int i = 0; i < node->num_outputs(); ++i) {
    Output result = body.results[i];
    if (result.dtype() != DT_RESOURCE) {
      result = ops::Identity(after, result);
      MF_RETURN_IF_ERROR(c.graph.status());
      all.push_back({result.node});
    }
    c.ReplaceValue(node->output(i), result);
  }
  Node* done = ops::Group(scope, all).node;
  MF_RETURN_IF_ERROR(c.graph.status());
  c.ReplaceOperation(node, done);
  return absl::OkStatus();
}

}  // namespace mirrorflow
