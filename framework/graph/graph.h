// SPDX-License-Identifier: Apache-2.0
//
// Graph: a program for one device and the global batch, and the compiler's only intermediate
// representation, from the user's program to the last pass. Build one with a Scope (scope.h) and
// the builders of ops (ops/all/ops.h); Graph's own methods are for passes and tools. A node has an
// op, attributes, data inputs and control inputs; an edge is an Output that a node uses. Shapes,
// shardings, costs and schedules are side tables keyed by node id, never fields of nodes.
//
// Ids are assigned in order of creation and never reused, so iteration is deterministic. Node
// pointers stay valid until RemoveNode. Not thread-safe.
#ifndef MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_H_
#define MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/graph/attr_value.h"
#include "framework/graph/function_library.h"
#include "framework/graph/op_def.h"

namespace mirrorflow {

namespace proto {
class GraphDef;
}  // namespace proto

class Graph;
class Node;
class OpRegistry;
class ShapeTable;

using NodeId = int32_t;

// Output `index` of `node`. Op builders take and return outputs. After an error, the outputs that
// they return are invalid.
struct Output {
  Node* node = nullptr;
  int index = 0;

  bool valid() const { return node != nullptr; }
  DataType dtype() const;
  std::string ToString() const;  // `name` or `name:1`

  friend bool operator==(const Output& a, const Output& b) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Output& o) {
    return H::combine(std::move(h), o.node, o.index);
  }
};

// Returns whether the output belongs to an unknown op. Every input accepts such an output; only a
// step that needs it fails.
bool OfUnknownDtype(const Output& output);

// A node that runs for its side effect, such as a training step or an assignment (a target).
struct Operation {
  Node* node = nullptr;
  bool valid() const { return node != nullptr; }
};

// One use of a node, as data input `slot` of `user` or as a control input (`slot` is kControl).
struct Use {
  static constexpr int kControl = -1;
  Node* user;
  int slot;
  int edge;  // index among all inputs of `user`: data inputs first, then control inputs
};

class Node {
 public:
  NodeId id() const { return id_; }
  Graph& graph() const { return *graph_; }
  const std::string& name() const { return name_; }
  const OpDef& op() const { return *op_; }
  // The result, like the result of attr(), is valid until SetAttr is called for this node.
  const AttrMap& attrs() const { return *attrs_; }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  const Output& input(int i) const { return inputs_[i]; }
  absl::Span<const Output> inputs() const { return inputs_; }
  absl::Span<Node* const> control_inputs() const { return control_inputs_; }

  int num_outputs() const { return static_cast<int>(output_dtypes_.size()); }
  Output output(int i) const { return Output{const_cast<Node*>(this), i}; }
  DataType output_dtype(int i) const { return output_dtypes_[i]; }
  // Returns the uses of all outputs, and the control edges that start here, in no particular order.
  absl::Span<const Use> uses() const { return uses_; }

  // The schema guarantees that a declared attribute exists and has its type.
  template <typename T>
  const T& attr(absl::string_view name) const {
    return attrs_->find(name)->second.template get<T>();
  }
  bool has_attr(absl::string_view name) const { return attrs_->find(name) != attrs_->end(); }
  // Returns an attribute of type list(int) as a vector.
  std::vector<int64_t> int_list(absl::string_view name) const;

  // Returns the input index of argument `name`'s first tensor, or -1 if it has none.
  int input_index(absl::string_view name) const;
  // Returns whether input i must be known when the step is compiled.
  bool is_static_input(int i) const { return static_inputs_[i]; }

  std::string CallString() const;   // `name = Op(in0, in1:1, ^control)`
  std::string DebugString() const;  // `name = Op(in0, in1:1, ^control) {attr=value}`

 private:
  friend class Graph;
  friend class GraphTestPeer;  // plants errors that VerifyGraph must find

  Graph* graph_ = nullptr;
  NodeId id_ = 0;
  std::string name_;
  const OpDef* op_ = nullptr;
  std::shared_ptr<AttrMap> attrs_;  // shared with clones until one of them sets an attribute
  std::vector<Output> inputs_;
  absl::InlinedVector<bool, 8> static_inputs_;
  std::vector<Node*> control_inputs_;
  // For each edge (see Use), its index in the source node's uses_, so that an edge can be removed
  // in constant time.
  std::vector<int> index_in_uses_;
  DataTypes output_dtypes_;
  std::vector<Use> uses_;
};

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  // Adds a node, with defaults for missing attributes. Programs use op builders or Scope::Build
  // instead. The name must be new and legal. Returns InvalidArgument, naming the cause, if the
  // name, an attribute, or the number or dtypes of the inputs is wrong, or if an input belongs to
  // another graph.
  absl::StatusOr<Node*> AddNode(absl::string_view name, const OpDef& op, AttrMap attrs,
                                std::vector<Output> inputs, std::vector<Node*> control_inputs = {});

  // Returns whether the node belongs to this graph.
  bool Owns(const Node* node) const {
    return node != nullptr && node->id() < id_limit() && nodes_[node->id()].get() == node;
  }
  // Returns InvalidArgument, naming the value, unless the node of `value` belongs to this graph.
  absl::Status CheckOwns(const Output& value) const;
  // Returns this clone's copy of `node`, or `node` itself if this graph owns it. Returns
  // InvalidArgument, naming the node, if it belongs to a graph other than the one that was cloned,
  // or was added after Clone. The error also names the clone's `holder` ("session") and the `call`
  // that made the clone ("NewSession").
  absl::StatusOr<Node*> CopyOf(Node* node, absl::string_view holder, absl::string_view call) const;

  // The methods below change the graph. If one is passed a node of another graph, it changes
  // nothing and records CheckOwns' error in status().

  // Removes the node, which must have no uses.
  void RemoveNode(Node* node);
  // Removes all nodes that no node in `wanted` depends on. Returns whether it removed any.
  bool RemoveUnneeded(absl::Span<Node* const> wanted);

  // Replaces `from` with `to` in every data input. O(uses of from.node).
  void ReplaceUses(Output from, Output to);
  // Replaces `from` with `to` in every control input, or removes it if `to` is null.
  void ReplaceControlUses(Node* from, Node* to);
  void SetInput(Node* node, int slot, Output value);
  // Adds a control edge, unless it exists or would be a self-loop. O(uses of `from` or control
  // inputs of `to`, whichever are fewer).
  void AddControlEdge(Node* from, Node* to);
  void RemoveControlEdge(Node* from, Node* to);
  void SetAttr(Node* node, absl::string_view name, AttrValue value);

  // Returns an op of role kUnknown, owned by this graph and its clones. It takes any inputs, and
  // its outputs have an unknown dtype, which every input accepts.
  const OpDef& UnknownOp(absl::string_view name, int num_outputs);

  // Returns the node called `name`, or null if there is none.
  Node* FindNode(absl::string_view name) const;
  // Returns an unused node name: `prefix` itself, or else `prefix_1`, `prefix_2`, …
  std::string UniqueName(absl::string_view prefix);
  // Returns an unused prefix for a sub-scope, formed in the same way. Each call reserves the prefix
  // that it returns.
  std::string UniquePrefix(absl::string_view prefix);

  int num_nodes() const { return num_nodes_; }
  // All ids are below this limit.
  NodeId id_limit() const { return static_cast<NodeId>(nodes_.size()); }
  // Returns the node with this id, or null if it was removed.
  Node* node(NodeId id) const { return nodes_[id].get(); }
  // Returns a snapshot of the live nodes in creation order. The graph may change during iteration
  // over it.
  std::vector<Node*> Nodes() const;

  // Returns a copy with the same names, edges and ids. CopyOf finds the copy of a node.
  Graph Clone() const;

  // Convert a graph to and from TensorFlow's GraphDef. Programs that call these must link graph_def
  // (see graph_def.h).
  absl::StatusOr<proto::GraphDef> ToGraphDef() const;
  static absl::StatusOr<Graph> FromGraphDef(const proto::GraphDef& def, const OpRegistry& registry);

  // Returns the library of functions that nodes may call.
  const FunctionLibrary& functions() const { return functions_; }
  FunctionLibrary& functions() { return functions_; }

  // Returns the first builder error, which Scope records and NewSession reports.
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // Returns the shapes and constants known so far, which Scope and the compiler maintain.
  ShapeTable& values() const { return *values_; }

 private:
  friend class GraphTestPeer;

  void OwnNodes();  // makes all nodes and shapes point to this graph
  // Returns whether this graph owns all of `nodes`. Records an error for the first node that it
  // does not own.
  bool MayChange(std::initializer_list<const Node*> nodes);

  // Edges are numbered as in Use. EdgeSource returns the node at which an edge of `user` starts.
  static Node* EdgeSource(const Node* user, int edge);
  static void AddUse(Node* user, int edge);
  static void RemoveUse(Node* user, int edge);
  static int FindControlEdge(const Node* from, const Node* to);  // an edge of `to`, or -1

  // Identifies this graph to its clones. Survives a move and, unlike the address of a destroyed
  // graph, is never reused.
  uint64_t identity_;
  uint64_t cloned_from_ = 0;  // the identity of the original if this is a clone, else 0

  std::vector<std::unique_ptr<Node>> nodes_;
  struct Names;  // defined in graph.cc, so that this header includes no hash tables
  std::unique_ptr<Names> names_;
  std::map<std::pair<std::string, int>, std::shared_ptr<const OpDef>>
      unknown_ops_;  // by name and output count
  int num_nodes_ = 0;
  FunctionLibrary functions_;
  absl::Status status_;
  std::unique_ptr<ShapeTable> values_;
};

// Returns all nodes, each after its data and control inputs; ties are broken by id. Returns
// InvalidArgument, naming the nodes of one cycle, if the graph has a cycle.
absl::StatusOr<std::vector<Node*>> TopologicalOrder(const Graph& graph);

// Returns `Op(name)`, the form in which errors name a node.
std::string OpAndName(const Node& node);

// Follows views (kView), which change only the shape, back to the underlying value.
Output StripViews(Output value);

// Returns the operations that precede the node: its control inputs, and the producers of its data
// inputs, except producers that have no inputs themselves.
std::vector<Operation> Predecessors(const Node& node);

// Return, by node id, whether the node is one of `nodes` or depends on one of them (Dependents), or
// whether it is one of `nodes` or one of them depends on it (Dependencies).
std::vector<char> Dependents(const Graph& graph, absl::Span<Node* const> nodes);
std::vector<char> Dependencies(const Graph& graph, absl::Span<Node* const> nodes);

// Returns true for [A-Za-z0-9.][A-Za-z0-9_>./\-]*, which TensorFlow's node names match.
bool IsValidNodeName(absl::string_view name);
// Returns true for [A-Za-z_][A-Za-z0-9_>.]*, which TensorFlow's op names match.
bool IsValidOpName(absl::string_view name);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_GRAPH_GRAPH_H_
