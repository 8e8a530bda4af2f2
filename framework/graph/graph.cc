// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/graph.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/topological_sort.h"

namespace mirrorflow {

DataType Output::dtype() const { return valid() ? node->output_dtype(index) : DT_INVALID; }

std::string Output::ToString() const {
  if (!valid()) return "(invalid)";
  return index == 0 ? node->name() : absl::StrCat(node->name(), ":", index);
}

std::vector<int64_t> Node::int_list(absl::string_view name) const {
  std::vector<int64_t> values;
  for (const AttrValue& item : attr<AttrList>(name)) values.push_back(item.get<int64_t>());
  return values;
}

int Node::input_index(absl::string_view name) const {
  const absl::StatusOr<ArgRange> range = FindArg(op_->inputs, attrs_, name);
  return range.ok() && range->last > range->first ? range->first : -1;
}

std::string Node::CallString() const {
  std::vector<std::string> parts;
  for (const Output& in : inputs_) parts.push_back(in.ToString());
  for (const Node* control : control_inputs_) parts.push_back(absl::StrCat("^", control->name()));
  return absl::StrCat(name_, " = ", op_->name, "(", absl::StrJoin(parts, ", "), ")");
}

std::string Node::DebugString() const {
  const std::string attrs = AttrMapToString(attrs_);
  return absl::StrCat(CallString(), attrs.empty() ? "" : " ", attrs);
}

Graph::Graph() : values_(std::make_unique<ShapeTable>()) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

bool IsValidNodeName(absl::string_view name) {
  if (name.empty() || !(absl::ascii_isalnum(name[0]) || name[0] == '.')) return false;
  return std::all_of(name.begin() + 1, name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '>' || c == '.' || c == '/' || c == '-';
  });
}

absl::StatusOr<Node*> Graph::AddNode(absl::string_view name, const OpDef& op, AttrMap attrs,
                                     std::vector<Output> inputs,
                                     std::vector<Node*> control_inputs) {
  auto fail = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(op.name, "(", name, "): ", what));
  };
  if (!IsValidNodeName(name))
    return fail("illegal node name; expected [A-Za-z0-9.][A-Za-z0-9_>./-]*");
  if (by_name_.contains(name)) return fail("a node of this name exists already");
  absl::Status status = CompleteAttrs(op, &attrs);
  if (!status.ok()) return fail(status.message());
  absl::StatusOr<std::vector<DataType>> in_types = ArgDataTypes(op.inputs, attrs);
  if (!in_types.ok()) return fail(in_types.status().message());
  absl::StatusOr<std::vector<DataType>> out_types = ArgDataTypes(op.outputs, attrs);
  if (!out_types.ok()) return fail(out_types.status().message());
  if (inputs.size() != in_types->size()) {
    return fail(absl::StrCat("expected ", in_types->size(), " inputs, got ", inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].valid() || inputs[i].index < 0 ||
        inputs[i].index >= inputs[i].node->num_outputs()) {
      return fail(absl::StrCat("input ", i, " names an output that does not exist"));
    }
    if (inputs[i].dtype() != (*in_types)[i]) {
      return fail(absl::StrCat("input ", i, " (", inputs[i].ToString(), "): expected dtype ",
                               DataTypeName((*in_types)[i]), ", got ",
                               DataTypeName(inputs[i].dtype())));
    }
  }

  auto node = std::make_unique<Node>();
  node->id_ = id_limit();
  node->name_ = std::string(name);
  node->op_ = &op;
  node->inputs_ = std::move(inputs);
  node->output_dtypes_ = *std::move(out_types);
  for (const ArgDef& arg : op.inputs) {
    MF_ASSIGN_OR_RETURN(const int64_t count, ArgCount(arg, attrs));
    node->static_inputs_.insert(node->static_inputs_.end(), count, arg.is_static);
  }
  node->attrs_ = std::move(attrs);
  Node* raw = node.get();
  nodes_.push_back(std::move(node));
  by_name_.emplace(raw->name_, raw);
  ++num_nodes_;
  for (int i = 0; i < raw->num_inputs(); ++i) {
    raw->inputs_[i].node->uses_.push_back({raw, i});
  }
  for (Node* control : control_inputs) AddControlEdge(control, raw);
  return raw;
}

void Graph::RemoveUse(Node* node, Node* user, int slot) {
  for (Use& use : node->uses_) {
    if (use.user == user && use.slot == slot) {
      use = node->uses_.back();
      node->uses_.pop_back();
      return;
    }
  }
  MF_CHECK(false && "a use that is not recorded");
}

void Graph::RemoveNode(Node* node) {
  MF_CHECK(node->uses_.empty());
  for (int i = 0; i < node->num_inputs(); ++i) RemoveUse(node->inputs_[i].node, node, i);
  for (Node* control : node->control_inputs_) RemoveUse(control, node, Use::kControl);
  by_name_.erase(node->name_);
  --num_nodes_;
  values_->Forget(*node);
  nodes_[node->id_].reset();
}

void Graph::ReplaceUses(Output from, Output to) {
  if (from == to) return;
  std::vector<Use> kept;
  for (const Use& use : from.node->uses_) {
    if (use.slot != Use::kControl && use.user->inputs_[use.slot] == from) {
      use.user->inputs_[use.slot] = to;
      if (to.node == from.node) {
        kept.push_back(use);
      } else {
        to.node->uses_.push_back(use);
      }
    } else {
      kept.push_back(use);
    }
  }
  from.node->uses_ = std::move(kept);
}

void Graph::ReplaceControlUses(Node* from, Node* to) {
  std::vector<Node*> users;
  for (const Use& use : from->uses_) {
    if (use.slot == Use::kControl) users.push_back(use.user);
  }
  for (Node* user : users) {
    RemoveControlEdge(from, user);
    if (to != nullptr) AddControlEdge(to, user);
  }
}

void Graph::SetInput(Node* node, int slot, Output value) {
  RemoveUse(node->inputs_[slot].node, node, slot);
  node->inputs_[slot] = value;
  value.node->uses_.push_back({node, slot});
}

void Graph::AddControlEdge(Node* from, Node* to) {
  if (from == to) return;
  std::vector<Node*>& controls = to->control_inputs_;
  if (std::find(controls.begin(), controls.end(), from) != controls.end()) return;
  controls.push_back(from);
  from->uses_.push_back({to, Use::kControl});
}

void Graph::RemoveControlEdge(Node* from, Node* to) {
  std::vector<Node*>& controls = to->control_inputs_;
  const auto it = std::find(controls.begin(), controls.end(), from);
  if (it == controls.end()) return;
  controls.erase(it);
  RemoveUse(from, to, Use::kControl);
}

void Graph::SetAttr(Node* node, absl::string_view name, AttrValue value) {
  node->attrs_.insert_or_assign(std::string(name), std::move(value));
}

Node* Graph::FindNode(absl::string_view name) const {
  const auto it = by_name_.find(name);
  return it != by_name_.end() ? it->second : nullptr;
}

std::string Graph::UniqueName(absl::string_view prefix) {
  if (!by_name_.contains(prefix)) return std::string(prefix);
  int& counter = name_counters_[prefix];
  std::string name;
  do {
    name = absl::StrCat(prefix, "_", ++counter);
  } while (by_name_.contains(name));
  return name;
}

std::string Graph::UniquePrefix(absl::string_view prefix) {
  std::string candidate(prefix);
  for (int n = 1; !prefixes_.insert(candidate).second; ++n) {
    candidate = absl::StrCat(prefix, "_", n);
  }
  return candidate;
}

std::vector<Node*> Graph::Nodes() const {
  std::vector<Node*> live;
  live.reserve(num_nodes_);
  for (const auto& node : nodes_) {
    if (node != nullptr) live.push_back(node.get());
  }
  return live;
}

Graph Graph::Clone() const {
  Graph copy;
  copy.nodes_.resize(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] != nullptr) copy.nodes_[i] = std::make_unique<Node>(*nodes_[i]);
  }
  auto translate = [&](Node*& node) { node = copy.nodes_[node->id_].get(); };
  for (const auto& node : copy.nodes_) {
    if (node == nullptr) continue;
    for (Output& in : node->inputs_) translate(in.node);
    for (Node*& control : node->control_inputs_) translate(control);
    for (Use& use : node->uses_) translate(use.user);
    copy.by_name_.emplace(node->name_, node.get());
  }
  copy.name_counters_ = name_counters_;
  copy.prefixes_ = prefixes_;
  copy.num_nodes_ = num_nodes_;
  copy.functions_ = functions_;
  copy.status_ = status_;
  *copy.values_ = *values_;
  return copy;
}

void Graph::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

absl::StatusOr<std::vector<Node*>> TopologicalOrder(const Graph& graph) {
  const TopologicalSort sort = SortTopologically(graph.id_limit(), [&](NodeId id, auto visit) {
    const Node* node = graph.node(id);
    if (node == nullptr) return;
    for (const Output& in : node->inputs()) visit(in.node->id());
    for (const Node* control : node->control_inputs()) visit(control->id());
  });
  if (!sort.cycle.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has a cycle: ",
                     CycleToString(sort.cycle, [&](NodeId id) { return graph.node(id)->name(); })));
  }
  std::vector<Node*> order;
  order.reserve(graph.num_nodes());
  for (NodeId id : sort.order) {
    if (Node* node = graph.node(id)) order.push_back(node);
  }
  return order;
}

}  // namespace mirrorflow
