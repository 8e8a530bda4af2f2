// SPDX-License-Identifier: Apache-2.0
//
// Scope tells builders where to add nodes: the graph, a name prefix, and control dependencies. It
// is cheap to copy; every With… method returns a new scope. The graph records the first error of a
// builder, and NewSession returns it with the node's name. After an error, builders add no nodes
// and return invalid outputs (Output::valid() is false).
//
// The builders in ops/ take a scope as their first argument:
//
//   Scope root(&graph);
//   Output y = ops::MatMul(root.SubScope("dense"), x, w);               // named `dense/MatMul`
//   Output z = ops::Relu(root.WithName("hidden"), y);                   // named `hidden`
//   // Runs the update after the check:
//   Operation update = ops::AssignVariableOp(root.WithControlDependencies({check}), handle, z);
//
// Build and NodeBuilder are for ops without a builder, such as user-defined ops:
//
//   Output s = root.Build(extensions.ops(), "Swish").Input(x).One();
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

  // Returns a scope that names the next node `name` (made unique if taken) instead of after its op.
  Scope WithName(absl::string_view name) const&;
  Scope WithName(absl::string_view name) &&;
  // Returns a scope for a constant that a builder adds as an operand of the next node. If that node
  // has a name, the constant is called `name/operand`, and the node keeps the name.
  Scope ForOperand(absl::string_view operand) const;
  // Returns a scope whose node names get the prefix `name/`, made unique among the sub-scopes of
  // this scope's prefix.
  Scope SubScope(absl::string_view name) const;
  // Returns a scope whose new nodes run after `operations`, in addition to those of this scope, as
  // with tf.control_dependencies. A step that runs such a node also runs `operations`.
  Scope WithControlDependencies(absl::Span<const Operation> operations) const;
  // Returns a scope whose new nodes get the control inputs of `node`.
  Scope WithControlInputsOf(const Node& node) const;

  Graph& graph() const { return *graph_; }
  const absl::Status& status() const { return graph_->status(); }
  bool ok() const { return graph_->status().ok(); }
  void Fail(absl::Status status) const { graph_->Fail(std::move(status)); }

  // Returns whether the graph owns `value`. If not, the graph records Graph::CheckOwns' error. Call
  // it in a function that may use or return a value without adding a node that takes it.
  bool Owns(const Output& value) const;

  // Returns the output's shape, which may be partially known. The shape of an invalid output, or of
  // another graph's output, is unknown; the latter also records an error in this scope's graph.
  const Shape& shape(const Output& output) const;

  // Starts building a node of type `op`. If `ops` does not contain it, the graph records NotFound.
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

// Collects the inputs and attributes of one node. Attributes that follow from the inputs (`T`, `N`,
// a list of dtypes) may be omitted.
class NodeBuilder {
 public:
  NodeBuilder(Scope scope, const OpDef* op) : scope_(std::move(scope)), op_(op) {}
  NodeBuilder(NodeBuilder&&) = default;

  // Adds one tensor. Inputs must be added in the order of the op's arguments.
  NodeBuilder& Input(const Output& value) &;
  // Adds the tensors of one `N * T` or list argument.
  NodeBuilder& InputList(absl::Span<const Output> values) &;
  NodeBuilder& Attr(absl::string_view name, AttrValue value) &;
  // Makes the node run after `node`, in addition to the scope's control dependencies.
  NodeBuilder& Control(Node* node) &;

  NodeBuilder&& Input(const Output& value) && { return std::move(Input(value)); }
  NodeBuilder&& InputList(absl::Span<const Output> values) && {
    return std::move(InputList(values));
  }
  NodeBuilder&& Attr(absl::string_view name, AttrValue value) && {
    return std::move(Attr(name, std::move(value)));
  }
  NodeBuilder&& Control(Node* node) && { return std::move(Control(node)); }

  // Adds the node and infers its shapes. Returns null after an error, which the graph records.
  Node* Finish() &&;
  // Returns output 0 of the node of Finish(), or an invalid output after an error.
  Output One() &&;
  // Returns the node of Finish() as an operation, for an op that runs for its effect.
  Operation Op() && { return Operation{std::move(*this).Finish()}; }

 private:
  absl::StatusOr<Node*> TryFinish();
  absl::Status InferAttrs();

  Scope scope_;
  const OpDef* op_;                        // null after a failed look-up
  std::vector<Output> inputs_;             // of all arguments, concatenated
  absl::InlinedVector<int, 6> arg_sizes_;  // the number of inputs of each argument
  AttrMap attrs_;
  std::vector<Node*> control_inputs_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_SCOPE_H_
