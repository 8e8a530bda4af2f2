// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/graph.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/topological_sort.h"

namespace mirrorflow {

namespace {

bool Exists(const Output& output) {
  return output.valid() && output.index >= 0 && output.index < output.node->num_outputs();
}

}  // namespace

// Checks that the output exists, because a builder can read the dtype before AddNode rejects the
// output.
DataType Output::dtype() const { return Exists(*this) ? node->output_dtype(index) : DT_INVALID; }

bool OfUnknownDtype(const Output& output) { return output.node->op().role == OpRole::kUnknown; }

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
  const absl::StatusOr<ArgRange> range = FindArg(op_->inputs, *attrs_, name);
  return range.ok() && range->last > range->first ? range->first : -1;
}

std::string Node::CallString() const {
  std::vector<std::string> parts;
  for (const Output& in : inputs_) parts.push_back(in.ToString());
  for (const Node* control : control_inputs_) parts.push_back(absl::StrCat("^", control->name()));
  return absl::StrCat(name_, " = ", op_->name, "(", absl::StrJoin(parts, ", "), ")");
}

std::string Node::DebugString() const {
  const std::string attrs = AttrMapToString(*attrs_);
  return absl::StrCat(CallString(), attrs.empty() ? "" : " ", attrs);
}

std::string OpAndName(const Node& node) {
  return absl::StrCat(node.op().name, "(", node.name(), ")");
}

Output StripViews(Output value) {
  while (value.node->op().has(kView) && value.node->num_inputs() > 0) value = value.node->input(0);
  return value;
}

std::vector<Operation> Predecessors(const Node& node) {
  std::vector<Operation> before;
  for (Node* control : node.control_inputs()) before.push_back({control});
  for (const Output& in : node.inputs()) {
    const bool waits = in.node->num_inputs() > 0 || !in.node->control_inputs().empty();
    if (waits) before.push_back({in.node});
  }
  return before;
}

namespace {

// Returns, by node id, whether the node is one of `nodes` or reached from one of them in steps.
// step(node, visit) visits the nodes that are one step from a node.
template <typename Step>
std::vector<char> Reached(const Graph& graph, absl::Span<Node* const> nodes, Step step) {
  std::vector<char> reached(graph.id_limit(), 0);
  std::vector<Node*> pending;
  const auto visit = [&](Node* node) {
    if (!std::exchange(reached[node->id()], 1)) pending.push_back(node);
  };
  for (Node* node : nodes) visit(node);
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    step(*node, visit);
  }
  return reached;
}

}  // namespace

std::vector<char> Dependents(const Graph& graph, absl::Span<Node* const> nodes) {
  return Reached(graph, nodes, [](const Node& node, const auto& visit) {
    for (const Use& use : node.uses()) visit(use.user);
  });
}

std::vector<char> Dependencies(const Graph& graph, absl::Span<Node* const> nodes) {
  return Reached(graph, nodes, [](const Node& node, const auto& visit) {
    for (const Output& in : node.inputs()) visit(in.node);
    for (Node* control : node.control_inputs()) visit(control);
  });
}

struct Graph::Names {
  absl::flat_hash_map<absl::string_view, Node*> by_name;  // keys point into the nodes
  absl::flat_hash_map<std::string, int> counters;
  absl::flat_hash_set<std::string> prefixes;
};

namespace {

uint64_t NewIdentity() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

Graph::Graph()
    : identity_(NewIdentity()),
      names_(std::make_unique<Names>()),
      values_(std::make_unique<ShapeTable>(this)) {}
Graph::~Graph() = default;
Graph::Graph(Graph&& other) noexcept { *this = std::move(other); }

Graph& Graph::operator=(Graph&& other) noexcept {
  identity_ = std::exchange(other.identity_, NewIdentity());
  cloned_from_ = other.cloned_from_;
  nodes_ = std::move(other.nodes_);
  names_ = std::move(other.names_);
  unknown_ops_ = std::move(other.unknown_ops_);
  num_nodes_ = other.num_nodes_;
  functions_ = std::move(other.functions_);
  status_ = std::move(other.status_);
  values_ = std::move(other.values_);
  OwnNodes();
  return *this;
}

void Graph::OwnNodes() {
  if (values_ != nullptr) values_->graph_ = this;
  for (const auto& node : nodes_) {
    if (node != nullptr) node->graph_ = this;
  }
}

bool IsValidNodeName(absl::string_view name) {
  if (name.empty() || !(absl::ascii_isalnum(name[0]) || name[0] == '.')) return false;
  return std::all_of(name.begin() + 1, name.end(), IsWordChar);
}

bool IsValidOpName(absl::string_view name) {
  if (name.empty() || !(absl::ascii_isalpha(name[0]) || name[0] == '_')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '>' || c == '.';
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
  if (names_->by_name.contains(name)) return fail("a node with this name already exists");
  absl::Status status = CompleteAttrs(op, &attrs);
  if (!status.ok()) return fail(status.message());
  absl::StatusOr<DataTypes> in_types = ArgDataTypes(op.inputs, attrs);
  if (!in_types.ok()) return fail(in_types.status().message());
  absl::StatusOr<DataTypes> out_types = ArgDataTypes(op.outputs, attrs);
  if (!out_types.ok()) return fail(out_types.status().message());
  const bool known = op.role != OpRole::kUnknown;
  if (known && inputs.size() != in_types->size()) {
    return fail(absl::StrCat("expected ", in_types->size(), " inputs, got ", inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (absl::Status own = CheckOwns(inputs[i]); !own.ok()) {
      return fail(absl::StrCat("input ", i, ": ", own.message()));
    }
    if (!Exists(inputs[i])) {
      return fail(absl::StrCat("input ", i, " refers to an output that does not exist"));
    }
    if (known && inputs[i].dtype() != (*in_types)[i] && !OfUnknownDtype(inputs[i])) {
      return fail(absl::StrCat("input ", i, " (", inputs[i].ToString(), "): expected dtype ",
                               DataTypeName((*in_types)[i]), ", got ",
                               DataTypeName(inputs[i].dtype())));
    }
  }

  for (Node* control : control_inputs) {
    if (Owns(control)) continue;
    if (control == nullptr) return fail("a control input is invalid");
    return fail(absl::StrCat("control input: ", CheckOwns({control, 0}).message()));
  }

  auto node = std::make_unique<Node>();
  node->graph_ = this;
  node->id_ = id_limit();
  node->name_ = std::string(name);
  node->op_ = &op;
  node->inputs_ = std::move(inputs);
  node->output_dtypes_ = *std::move(out_types);
  for (const ArgDef& arg : op.inputs) {
    MF_ASSIGN_OR_RETURN(const int64_t count, ArgCount(arg, attrs));
    node->static_inputs_.insert(node->static_inputs_.end(), count, arg.is_static);
  }
  node->static_inputs_.resize(node->inputs_.size(), false);  // for unknown ops
  node->attrs_ = std::make_shared<AttrMap>(std::move(attrs));
  Node* raw = node.get();
  nodes_.push_back(std::move(node));
  names_->by_name.emplace(raw->name_, raw);
  ++num_nodes_;
  raw->index_in_uses_.resize(raw->inputs_.size());
  for (int i = 0; i < raw->num_inputs(); ++i) AddUse(raw, i);
  for (Node* control : control_inputs) AddControlEdge(control, raw);
  return raw;
}

absl::Status Graph::CheckOwns(const Output& value) const {
  if (!value.valid()) return absl::InvalidArgumentError("an invalid output");
  if (Owns(value.node)) {
    // {node, 0} also stands for an operation's node, which may have no outputs.
    if (Exists(value) || value.index == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("'", value.ToString(), "' does not exist: the output count of '",
                     value.node->name(), "' is ", value.node->num_outputs()));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", value.ToString(),
      "' belongs to another graph; use a value from this graph (the function of an If or While "
      "sees only its arguments: pass the value in `inputs` and use the matching argument)"));
}

absl::StatusOr<Node*> Graph::CopyOf(Node* node, absl::string_view holder,
                                    absl::string_view call) const {
  if (Owns(node)) return node;
  if (node == nullptr) {
    return absl::InvalidArgumentError(
        "invalid; expected a builder's result, got an empty value or the result of a builder "
        "that failed");
  }
  if (node->graph().identity_ != cloned_from_) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", node->name(), "': not in the ", holder, "'s snapshot, because it ",
                     "belongs to another graph; use a node of the graph that ", call, " copied"));
  }
  // Ids are never reused, so the node with this id is the copy.
  Node* const copy = node->id() < id_limit() ? nodes_[node->id()].get() : nullptr;
  if (copy != nullptr) return copy;
  return absl::InvalidArgumentError(absl::StrCat("'", node->name(), "': not in the ", holder,
                                                 "'s snapshot of its graph; ",
                                                 "build the node before calling ", call));
}

bool Graph::MayChange(std::initializer_list<const Node*> nodes) {
  for (const Node* node : nodes) {
    if (Owns(node)) continue;
    Fail(CheckOwns({const_cast<Node*>(node), 0}));
    return false;
  }
  return true;
}

Node* Graph::EdgeSource(const Node* user, int edge) {
  const int num_inputs = user->num_inputs();
  return edge < num_inputs ? user->inputs_[edge].node : user->control_inputs_[edge - num_inputs];
}

void Graph::AddUse(Node* user, int edge) {
  std::vector<Use>& uses = EdgeSource(user, edge)->uses_;
  user->index_in_uses_[edge] = static_cast<int>(uses.size());
  uses.push_back({user, edge < user->num_inputs() ? edge : Use::kControl, edge});
}

void Graph::RemoveUse(Node* user, int edge) {
  std::vector<Use>& uses = EdgeSource(user, edge)->uses_;
  const int index = user->index_in_uses_[edge];
  MF_CHECK(uses[index].user == user && uses[index].edge == edge);
  const Use last = uses.back();
  uses.pop_back();
  if (index == static_cast<int>(uses.size())) return;
  uses[index] = last;
  last.user->index_in_uses_[last.edge] = index;
}

void Graph::RemoveNode(Node* node) {
  if (!MayChange({node})) return;
  MF_CHECK(node->uses_.empty());
  const int num_edges = static_cast<int>(node->index_in_uses_.size());
  for (int edge = 0; edge < num_edges; ++edge) RemoveUse(node, edge);
  names_->by_name.erase(node->name_);
  --num_nodes_;
  values_->Forget(*node);
  nodes_[node->id_].reset();
}

bool Graph::RemoveUnneeded(absl::Span<Node* const> wanted) {
  for (const Node* node : wanted) {
    if (!MayChange({node})) return false;
  }
  const std::vector<char> needed = Dependencies(*this, wanted);
  // An unneeded node has only unneeded users, so start with nodes without uses.
  bool removed = false;
  std::vector<Node*> ready;
  for (Node* node : Nodes()) {
    if (needed[node->id()]) continue;
    removed = true;
    if (node->uses().empty()) ready.push_back(node);
  }
  while (!ready.empty()) {
    Node* node = ready.back();
    ready.pop_back();
    std::vector<Node*> inputs(node->control_inputs().begin(), node->control_inputs().end());
    for (const Output& in : node->inputs()) inputs.push_back(in.node);
    RemoveNode(node);
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (Node* in : inputs) {
      if (!needed[in->id()] && in->uses().empty()) ready.push_back(in);
    }
  }
  return removed;
}

void Graph::ReplaceUses(Output from, Output to) {
  if (from == to) return;
  for (const Output& output : {from, to}) {
    if (absl::Status own = CheckOwns(output); !own.ok()) return Fail(std::move(own));
  }
  // Rebuilds the uses of all outputs, not only of the one that is replaced.
  const std::vector<Use> uses = std::exchange(from.node->uses_, {});
  for (const Use& use : uses) {
    if (use.slot != Use::kControl && use.user->inputs_[use.slot] == from) {
      use.user->inputs_[use.slot] = to;
    }
    AddUse(use.user, use.edge);
  }
}

void Graph::ReplaceControlUses(Node* from, Node* to) {
  if (!MayChange({from}) || (to != nullptr && !MayChange({to}))) return;
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
  if (!MayChange({node})) return;
  if (absl::Status own = CheckOwns(value); !own.ok()) return Fail(std::move(own));
  RemoveUse(node, slot);
  node->inputs_[slot] = value;
  AddUse(node, slot);
}

int Graph::FindControlEdge(const Node* from, const Node* to) {
  const std::vector<Node*>& controls = to->control_inputs_;
  if (controls.size() <= from->uses_.size()) {
    const auto it = std::find(controls.begin(), controls.end(), from);
    return it == controls.end() ? -1 : to->num_inputs() + static_cast<int>(it - controls.begin());
  }
  for (const Use& use : from->uses_) {
    if (use.user == to && use.slot == Use::kControl) return use.edge;
  }
  return -1;
}

void Graph::AddControlEdge(Node* from, Node* to) {
  if (from == to || !MayChange({from, to}) || FindControlEdge(from, to) >= 0) return;
  to->control_inputs_.push_back(from);
  to->index_in_uses_.push_back(0);
  AddUse(to, static_cast<int>(to->index_in_uses_.size()) - 1);
}

void Graph::RemoveControlEdge(Node* from, Node* to) {
  if (!MayChange({from, to})) return;
  const int edge = FindControlEdge(from, to);
  if (edge < 0) return;
  RemoveUse(to, edge);
  to->control_inputs_.erase(to->control_inputs_.begin() + (edge - to->num_inputs()));
  to->index_in_uses_.erase(to->index_in_uses_.begin() + edge);
  // The indices of the later edges have decreased by one.
  const int num_edges = static_cast<int>(to->index_in_uses_.size());
  for (int e = edge; e < num_edges; ++e) EdgeSource(to, e)->uses_[to->index_in_uses_[e]].edge = e;
}

void Graph::SetAttr(Node* node, absl::string_view name, AttrValue value) {
  if (!MayChange({node})) return;
  std::shared_ptr<AttrMap>& attrs = node->attrs_;
  if (attrs.use_count() > 1) attrs = std::make_shared<AttrMap>(*attrs);
  attrs->insert_or_assign(std::string(name), std::move(value));
}

const OpDef& Graph::UnknownOp(absl::string_view name, int num_outputs) {
  std::shared_ptr<const OpDef>& known = unknown_ops_[{std::string(name), num_outputs}];
  if (known == nullptr) {
    auto op = std::make_shared<OpDef>();
    op->name = std::string(name);
    op->role = OpRole::kUnknown;
    op->traits = kStateful;
    op->outputs.assign(num_outputs, {.name = "output"});
    known = std::move(op);
  }
  return *known;
}

Node* Graph::FindNode(absl::string_view name) const {
  const auto it = names_->by_name.find(name);
  return it != names_->by_name.end() ? it->second : nullptr;
}

std::string Graph::UniqueName(absl::string_view prefix) {
  if (!names_->by_name.contains(prefix)) return std::string(prefix);
  int& counter = names_->counters[prefix];
  std::string name;
  do {
    name = absl::StrCat(prefix, "_", ++counter);
  } while (names_->by_name.contains(name));
  return name;
}

std::string Graph::UniquePrefix(absl::string_view prefix) {
  std::string candidate(prefix);
  for (int n = 1; !names_->prefixes.insert(candidate).second; ++n) {
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
  copy.names_->by_name.reserve(names_->by_name.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] != nullptr) copy.nodes_[i] = std::make_unique<Node>(*nodes_[i]);
  }
  auto translate = [&](Node*& node) { node = copy.nodes_[node->id_].get(); };
  for (const auto& node : copy.nodes_) {
    if (node == nullptr) continue;
    for (Output& in : node->inputs_) translate(in.node);
    for (Node*& control : node->control_inputs_) translate(control);
    for (Use& use : node->uses_) translate(use.user);
    copy.names_->by_name.emplace(node->name_, node.get());
  }
  copy.cloned_from_ = identity_;
  copy.names_->counters = names_->counters;
  copy.names_->prefixes = names_->prefixes;
  copy.unknown_ops_ = unknown_ops_;
  copy.num_nodes_ = num_nodes_;
  copy.functions_ = functions_;
  copy.status_ = status_;
  *copy.values_ = *values_;
  copy.OwnNodes();
  return copy;
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
