// SPDX-License-Identifier: Apache-2.0
//
// The members of Optimizer that compute gradients and reduce them over the replicas.
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "ops/collectives.h"
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
  std::string ends;  // an op without a gradient between a variable and the loss
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
    return absl::StrCat("the loss depends on none of the ", variables.size(),
                        " trainable variables");
  }
  return absl::StrCat("the loss depends on variables only through ops without a gradient",
                      ends.empty() ? "" : ", such as ", ends);
}

// Checks what a reducer returned for `gv`, a gradient of the variable named `name`.
absl::Status CheckReduced(const Scope& scope, absl::string_view name, const GradientAndVariable& gv,
                          const Output& reduced) {
  const std::string where = absl::StrCat("reduction of the gradient of '", name, "'");
  if (!reduced.valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": the reducer returned an invalid output; expected a value"));
  }
  MF_RETURN_IF_ERROR(Annotate(scope.graph().CheckOwns(reduced), where));
  const Shape &want = scope.shape(gv.gradient), &got = scope.shape(reduced);
  if (reduced.dtype() == gv.gradient.dtype() && want.IsCompatibleWith(got)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": expected ", DataTypeName(gv.gradient.dtype()), want.ToString(),
                   ", got ", DataTypeName(reduced.dtype()), got.ToString()));
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

absl::Status Optimizer::CheckGradients(const Graph& graph,
                                       absl::Span<const GradientAndVariable> gradients,
                                       const Output& gate) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string where = absl::StrCat("apply_gradients, pair ", i);
    MF_RETURN_IF_ERROR(Annotate(graph.CheckOwns(gradients[i].gradient), where));
    MF_RETURN_IF_ERROR(Annotate(graph.CheckOwns(gradients[i].variable), where));
    if (gradients[i].variable.dtype() == DT_RESOURCE) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": '", gradients[i].variable.ToString(),
                     "' is not a variable handle; expected Variable::handle, got a value of dtype ",
                     DataTypeName(gradients[i].variable.dtype())));
  }
  if (!gate.valid()) return absl::OkStatus();
  return Annotate(graph.CheckOwns(gate), "apply_gradients, gate");
}

ReducedGradients Optimizer::ReduceGradients(const Scope& scope,
                                            absl::Span<const GradientAndVariable> gradients,
                                            const GradientReducer& reduce, Output gate) {
  ReducedGradients result;
  if (!scope.ok()) return result;
  if (absl::Status status = CheckGradients(scope.graph(), gradients, gate); !status.ok()) {
    scope.Fail(std::move(status));
    return result;
  }
  const Scope s = scope.SubScope("reduce");
  for (const GradientAndVariable& gv : gradients) {
    const std::string& name = gv.variable.node->name();
    const Scope own = s.SubScope(name);
    GradientReduction reduction(own, gv.gradient, gv.variable, gate);
    Output reduced = reduce(reduction);
    if (!s.ok()) return {};
    if (absl::Status status = CheckReduced(s, name, gv, reduced); !status.ok()) {
      s.Fail(std::move(status));
      return {};
    }
    reduced = ops::EnsureReplicated(
        own, reduced, absl::StrCat("reduction of the gradient of variable '", name, "'"));
    result.gradients.push_back({reduced, gv.variable});
    for (const Operation& update : reduction.updates()) result.updates.push_back(update);
  }
  return result;
}

}  // namespace mirrorflow
