// SPDX-License-Identifier: Apache-2.0
#include "ops/control_flow/function_gradient.h"

#include <vector>

#include "framework/core/status.h"
#include "framework/graph/list_info.h"
#include "ops/control.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

// Gives `list` the same element kind as `like`.
void SetElementsLike(const Graph& of_like, const Output& like, const Graph& of_list,
                     const Output& list) {
  const ListInfo info = ListInfo::From(of_like.values().at(like));
  of_list.values().Set(list, info.OfAnyLength().ToValueInfo());
}

}  // namespace

absl::StatusOr<FunctionBody> InstantiateForGradient(const Graph& caller,
                                                    const FunctionRef& function,
                                                    absl::string_view name,
                                                    absl::Span<const Output> args) {
  MF_ASSIGN_OR_RETURN(FunctionBody body,
                      InstantiateFunction(caller, function, name, args, AllOps()));
  bool has_lists = false;
  for (size_t i = 0; i < body.args.size(); ++i) {
    if (body.args[i].dtype() != DT_VARIANT) continue;
    SetElementsLike(caller, args[i], body.graph, body.args[i]);
    has_lists = true;
  }
  if (!has_lists) return body;
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(body.graph));
  for (const Node* node : order) {
    if (node->op().role == OpRole::kPlaceholder) continue;
    MF_RETURN_IF_ERROR(body.graph.values().Infer(*node));
  }
  return body;
}

Output GradientArgument(const Graph& graph, const Output& like, const Shape& shape,
                        absl::string_view name, FunctionBody* body) {
  const Scope scope(&body->graph);
  const Output arg = ops::Placeholder(scope.WithName(name), like.dtype(), shape);
  if (arg.valid() && like.dtype() == DT_VARIANT) {
    SetElementsLike(graph, like, body->graph, arg);
  }
  return arg;
}

}  // namespace mirrorflow
