// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/verifier.h"

#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), nodes_(graph.Nodes()) {}

  absl::Status Run() {
    live_.insert(nodes_.begin(), nodes_.end());
    for (const Node* node : nodes_) {
      if (errors_.full()) break;
      CheckIdentity(*node);
      CheckSchema(*node);
      CheckInputs(*node);
    }
    // Only edges between live nodes can be followed.
    if (errors_.empty()) CheckUses();
    if (errors_.empty()) {
      const auto order = TopologicalOrder(graph_);
      if (!order.ok()) errors_.Add(order.status().message());
    }
    return errors_.ToStatus();
  }

 private:
  using Edge = std::tuple<const Node*, const Node*, int>;  // from, to, slot of `to`

  void Error(const Node& node, absl::string_view what) {
    errors_.Add(absl::StrCat(OpAndName(node), ": ", what));
  }

  void CheckIdentity(const Node& node) {
    if (!IsValidNodeName(node.name())) Error(node, "illegal node name");
    if (graph_.node(node.id()) != &node) {
      Error(node, absl::StrCat("is not stored at its id ", node.id()));
    }
    if (graph_.FindNode(node.name()) != &node) {
      Error(node, "FindNode does not find this node by its name; the name is taken or not indexed");
    }
  }

  void CheckSchema(const Node& node) {
    AttrMap complete = node.attrs();
    const absl::Status status = CompleteAttrs(node.op(), &complete);
    if (!status.ok()) return Error(node, status.message());
    for (const auto& [name, value] : complete) {
      if (!node.has_attr(name)) Error(node, absl::StrCat("attribute '", name, "' is missing"));
    }
    const auto in_types = ArgDataTypes(node.op().inputs, complete);
    const auto out_types = ArgDataTypes(node.op().outputs, complete);
    if (!in_types.ok()) return Error(node, in_types.status().message());
    if (!out_types.ok()) return Error(node, out_types.status().message());
    const bool known = node.op().role != OpRole::kUnknown;
    if (known && static_cast<int>(in_types->size()) != node.num_inputs()) {
      return Error(node,
                   absl::StrCat("expected ", in_types->size(), " inputs, got ", node.num_inputs()));
    }
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (known && IsOutput(node.input(i)) && node.input(i).dtype() != (*in_types)[i] &&
          !OfUnknownDtype(node.input(i))) {
        Error(node, absl::StrCat("input ", i, " (", node.input(i).ToString(), "): expected dtype ",
                                 DataTypeName((*in_types)[i]), ", got ",
                                 DataTypeName(node.input(i).dtype())));
      }
    }
    DataTypes dtypes;
    for (int i = 0; i < node.num_outputs(); ++i) dtypes.push_back(node.output_dtype(i));
    if (dtypes != *out_types) Error(node, "outputs do not match the schema");
  }

  void CheckInputs(const Node& node) {
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (!IsOutput(node.input(i))) {
        Error(node, absl::StrCat("input ", i, " is not an output of a node of this graph"));
      }
    }
    absl::flat_hash_set<const Node*> seen;
    for (const Node* control : node.control_inputs()) {
      if (!live_.contains(control)) {
        Error(node, "a control input is not a node of this graph");
      } else if (control == &node || !seen.insert(control).second) {
        Error(node, absl::StrCat("control input ^", control->name(),
                                 control == &node ? " is the node itself" : " is listed twice"));
      }
    }
  }

  bool IsOutput(const Output& output) const {
    return live_.contains(output.node) && output.index >= 0 &&
           output.index < output.node->num_outputs();
  }

  static bool IsAtEdge(const Use& use, const Node* node) {
    if (use.slot != Use::kControl) return use.edge == use.slot;
    const int control = use.edge - use.user->num_inputs();
    const absl::Span<Node* const> controls = use.user->control_inputs();
    return control >= 0 && control < static_cast<int>(controls.size()) && controls[control] == node;
  }

  void CheckUses() {
    std::vector<Edge> edges;
    for (const Node* node : nodes_) {
      for (int i = 0; i < node->num_inputs(); ++i) edges.push_back({node->input(i).node, node, i});
      for (const Node* control : node->control_inputs()) {
        edges.push_back({control, node, Use::kControl});
      }
    }
    absl::flat_hash_set<Edge> unrecorded(edges.begin(), edges.end());
    for (const Node* node : nodes_) {
      for (const Use& use : node->uses()) {
        if (unrecorded.erase({node, use.user, use.slot}) > 0) {
          if (!IsAtEdge(use, node)) Error(*node, "records a use at the wrong edge");
          continue;
        }
        Error(*node, live_.contains(use.user)
                         ? absl::StrCat("records a use by ", use.user->name(), ", slot ", use.slot,
                                        ", that does not exist or is recorded twice")
                         : "records a use by a node that is not in this graph");
      }
    }
    for (const Edge& edge : edges) {
      const auto& [from, to, slot] = edge;
      if (!unrecorded.contains(edge)) continue;
      Error(*from, absl::StrCat("does not record its use by ", to->name(), ", slot ", slot));
    }
  }

  const Graph& graph_;
  const std::vector<Node*> nodes_;
  absl::flat_hash_set<const Node*> live_;
  ErrorList errors_;
};

}  // namespace

absl::Status VerifyGraph(const Graph& graph) {
  if (static_cast<size_t>(graph.num_nodes()) != graph.Nodes().size()) {
    return absl::InvalidArgumentError(absl::StrCat("the graph records ", graph.num_nodes(),
                                                   " nodes, but it has ", graph.Nodes().size()));
  }
  return Verifier(graph).Run();
}

}  // namespace mirrorflow
