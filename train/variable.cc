// SPDX-License-Identifier: Apache-2.0
#include "train/variable.h"

#include "absl/strings/str_cat.h"
#include "framework/graph/creation_scope.h"
#include "framework/graph/variable_handle.h"
#include "ops/variable.h"

namespace mirrorflow {
namespace {

// Each object saves the enclosing one, so they form a stack.
thread_local VariableSharing* innermost_sharing = nullptr;

Variable CreateNewVariable(const Scope& scope, absl::string_view name, const Shape& shape,
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
  // Reject an output of another graph: the handle identifies its initial value only by name, and
  // this graph might have a node with that name.
  if (!initial.valid() || !scope.Owns(initial)) return variable;
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

}  // namespace

VariableSharing::VariableSharing(const Scope& scope, absl::string_view piece,
                                 SharedVariables* shared)
    : scope_(scope),
      piece_(piece),
      shared_(*shared),
      outer_(innermost_sharing),
      is_first_(!shared->is_built) {
  innermost_sharing = this;
}

VariableSharing::~VariableSharing() {
  innermost_sharing = outer_;
  shared_.is_built = true;
  if (is_first_ || !scope_.ok() || used_ == shared_.variables.size()) return;
  scope_.Fail(absl::InvalidArgumentError(
      absl::StrCat(piece_, ": every application must use all variables; expected ",
                   shared_.variables.size(), " variables as in the first one, got ", used_)));
}

Variable VariableSharing::Next(const Scope& scope, absl::string_view name, const Shape& shape,
                               DataType dtype) {
  const std::string wanted =
      absl::StrCat("'", name, "' of ", DataTypeName(dtype), shape.ToString());
  const auto fail = [&](absl::string_view what) {
    scope.Fail(absl::InvalidArgumentError(absl::StrCat(piece_, ": expected ", what)));
    return Variable();
  };
  if (used_ == shared_.variables.size()) {
    return fail(absl::StrCat("only ", used_,
                             " variables as in the first application, got variable ", wanted,
                             " in addition"));
  }
  const Variable& variable = shared_.variables[used_++];
  const Output& handle = variable.handle;
  if (!scope.graph().Owns(handle.node)) {
    return fail(absl::StrCat("the graph of the first application, got another graph for variable ",
                             wanted));
  }
  const auto& first_dtype = handle.node->attr<DataType>("dtype");
  const auto& first_shape = handle.node->attr<Shape>("shape");
  if (first_dtype == dtype && first_shape == shape) return variable;
  return fail(absl::StrCat("variable '", handle.ToString(), "' of ", DataTypeName(first_dtype),
                           first_shape.ToString(), " as in the first application, got ", wanted));
}

Variable CreateVariable(const Scope& scope, absl::string_view name, const Shape& shape,
                        const Initializer& initializer, DataType dtype,
                        const VariableOptions& options) {
  VariableSharing* const sharing = innermost_sharing;
  if (sharing != nullptr && !sharing->is_first_) return sharing->Next(scope, name, shape, dtype);
  for (const VariableSharing* s = sharing; s != nullptr; s = s->outer_) {
    if (s->is_first_) continue;
    scope.Fail(absl::InvalidArgumentError(absl::StrCat(
        s->piece_, ": expected no new variables after the first application, got '", name, "' of ",
        sharing->piece_, "; create that variable outside ", s->piece_)));
    return Variable();
  }
  const Variable variable = CreateNewVariable(scope, name, shape, initializer, dtype, options);
  if (sharing != nullptr) sharing->shared_.variables.push_back(variable);
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
