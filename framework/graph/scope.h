// SPDX-License-Identifier: Apache-2.0
//
// Scope: where a node is added: a graph, a name prefix, control dependencies. Cheap to copy; every
// With… returns a new one. The first error while building sticks to the graph and comes out of
// NewSession with the node's name; after it builders return invalid outputs and add nothing.
//
//   Scope root(&graph);
//   Output y = root.SubScope("dense").Build(ops, "MatMul").Input(x).Input(w).One();
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_SCOPE_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_SCOPE_H_

#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/graph.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

class NodeBuilder;

class Scope {
 public:
  explicit Scope(Graph* graph) : graph_(graph) {}

  // The next node is called `name` (made unique if taken) instead of after its op.
  Scope WithName(absl::string_view name) const&;
  Scope WithName(absl::string_view name) &&;
  // Names get the prefix `name/`, made unique among the sub-scopes of this scope's prefix.
  Scope SubScope(absl::string_view name) const;
  Scope WithControlDependencies(absl::Span<const Operation> operations) const;
  // What has to happen before `node` has to happen before what is built, too.
  Scope WithControlInputsOf(const Node& node) const;

  Graph& graph() const { return *graph_; }
  const absl::Status& status() const { return graph_->status(); }
  bool ok() const { return graph_->status().ok(); }
  void Fail(absl::Status status) const { graph_->Fail(std::move(status)); }

  // What is known so far of an output that this scope's graph owns; unknown for an invalid one.
  const Shape& shape(const Output& output) const;

  // Starts a node of `op`, which is looked up in `ops`.
  NodeBuilder Build(const OpRegistry& ops, absl::string_view op) const&;
  NodeBuilder Build(const OpRegistry& ops, absl::string_view op) &&;
  NodeBuilder Build(const OpDef& op) const;

 private:
  friend class NodeBuilder;

  Graph* graph_;
  std::string prefix_;  // "" or "a/b/"
  std::string name_;    // for the next node; may be empty
  std::vector<Node*> control_inputs_;
};

// Collects the inputs and attributes of one node. Attributes that a type or count can be read off
// the inputs (`T`, `N`, a list of dtypes) need not be given.
class NodeBuilder {
 public:
  NodeBuilder(Scope scope, const OpDef* op) : scope_(std::move(scope)), op_(op) {}
  NodeBuilder(NodeBuilder&&) = default;
  // `b = std::move(b).Input(x)` would empty it; a statement `std::move(b).Input(x);` is enough.
  NodeBuilder& operator=(NodeBuilder&&) = delete;

  NodeBuilder&& Input(const Output& value) &&;
  // The tensors of one `N * T` or list argument.
  NodeBuilder&& InputList(absl::Span<const Output> values) &&;
  NodeBuilder&& Attr(absl::string_view name, AttrValue value) &&;
  NodeBuilder&& Control(Node* node) &&;

  // Adds the node and infers its shapes; null after an error, which then sticks to the graph.
  Node* Finish() &&;
  // Output 0 of Finish().
  Output One() &&;
  Operation Op() && { return Operation{std::move(*this).Finish()}; }

 private:
  absl::StatusOr<Node*> TryFinish();
  absl::Status InferAttrs();

  Scope scope_;
  const OpDef* op_;                        // null after a failed look-up
  std::vector<Output> inputs_;             // of all arguments, one after the other
  absl::InlinedVector<int, 6> arg_sizes_;  // how many of them each argument has
  AttrMap attrs_;
  std::vector<Node*> control_inputs_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_SCOPE_H_
