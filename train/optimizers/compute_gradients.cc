// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "ops/gradients.h"
#include "train/graph_walk.h"
#include "train/optimizers/optimizer.h"

namespace mirrorflow {
namespace {

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

}  // namespace mirrorflow
