// SPDX-License-Identifier: Apache-2.0
#include "train/variable.h"

#include "framework/graph/creation_scope.h"
#include "ops/variable.h"

namespace mirrorflow {
Variable CreateVariable(const Scope& scope, absl::string_view name, const Shape& shape,
                        const Initializer& initializer, DataType dtype,
                        const VariableOptions& options) {
  Variable variable;
  variable.handle = ops::VarHandleOp(scope.WithName(name), dtype, shape);
  if (!scope.ok()) return variable;
  Node* handle = variable.handle.node;
  Graph& graph = scope.graph();
  // Checkpoints and error messages use this name.
  graph.SetAttr(handle, "shared_name", handle->name());
  const Scope inside = scope.SubScope(name);
  const Output initial = initializer(inside.SubScope("initializer"), shape, dtype);
  if (!initial.valid()) return variable;
  graph.SetAttr(handle, "_initializer", initial.ToString());
  graph.SetAttr(handle, kCreationScopeAttr, CreationScope::Current());
  const bool on_read = options.synchronization == VariableSynchronization::kOnRead;
  if (on_read) {
    graph.SetAttr(handle, "_synchronization", std::string("ON_READ"));
    graph.SetAttr(handle, "_aggregation", std::string("SUM"));
  }
  if (!options.trainable || on_read) graph.SetAttr(handle, kNotTrainableAttr, true);
  variable.value = ops::ReadVariableOp(inside.WithName("read"), variable.handle);
  return variable;
}

std::vector<Output> TrainableVariables(const Graph& graph) {
  std::vector<Output> handles;
  for (Node* node : graph.Nodes()) {
    if (node->op().role == OpRole::kVariable && !node->has_attr(kNotTrainableAttr)) {
      handles.push_back(node->output(0));
    }
  }
  return handles;
}

}  // namespace mirrorflow
