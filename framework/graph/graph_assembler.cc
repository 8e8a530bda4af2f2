// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/graph_assembler.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/graph/creation_scope.h"
#include "framework/graph/shape_inference.h"
#include "framework/graph/topological_sort.h"
#include "framework/graph/variable_handle.h"

namespace mirrorflow {
namespace {

// An attribute can request any number of outputs, each of which has a row in the shape table. The
// limit keeps a few bytes of a file from allocating gigabytes.
int64_t MaxOutputs(size_t nodes) { return (int64_t{1} << 18) + 16 * static_cast<int64_t>(nodes); }
// Larger graphs get no hint, because the search for the nearest name compares all names.
constexpr size_t kMaxNodesForHint = 2000;
// The limit for an unknown op, where each output is a separate argument.
constexpr int kMaxUnknownOutputs = 1 << 12;

struct Link {
  int record;
  int index;  // an output of the record, or Use::kControl
};

class Assembler {
 public:
  Assembler(std::vector<NodeRecord> records, const OpRegistry& registry, ErrorList errors)
      : records_(std::move(records)),
        registry_(registry),
        errors_(std::move(errors)),
        ops_(records_.size(), nullptr),
        can_build_(records_.size(), false),
        num_used_outputs_(records_.size(), 0),
        links_(records_.size()),
        nodes_(records_.size(), nullptr) {}

  absl::StatusOr<Graph> Run(FunctionLibrary functions) {
    graph_.functions() = std::move(functions);
    IndexNames();
    for (size_t i = 0; i < records_.size() && !errors_.full(); ++i) Resolve(i);
    // Silently skips records that depend on a record that cannot be built, so that the reported
    // errors are independent of one another.
    for (int i : Order()) {
      if (errors_.full()) break;
      Build(i);
    }
    MF_RETURN_IF_ERROR(errors_.ToStatus());
    return std::move(graph_);
  }

 private:
  void Error(int i, absl::string_view what) {
    const NodeRecord& r = records_[i];
    errors_.Add(absl::StrCat(r.where, Printable(r.op), "(", Printable(r.name), "): ", what));
  }

  void IndexNames() {
    for (size_t i = 0; i < records_.size(); ++i) {
      const auto [it, inserted] = by_name_.emplace(records_[i].name, i);
      if (inserted) continue;
      const NodeRecord& first = records_[it->second];
      Error(i,
            absl::StrCat("a node with this name already exists", first.where.empty() ? "" : " in ",
                         absl::StripSuffix(first.where, ": ")));
    }
  }

  // Sets links_[i] and, unless there is an error, ops_[i] and can_build_[i].
  void Resolve(int i) {
    const NodeRecord& r = records_[i];
    if (r.broken || by_name_.at(r.name) != i) return;
    if (!IsValidNodeName(r.name)) {
      return Error(i, "illegal node name; expected [A-Za-z0-9.][A-Za-z0-9_>./-]*");
    }
    if (!IsValidOpName(r.op)) {
      return Error(i, "illegal op name; expected [A-Za-z_][A-Za-z0-9_>.]*");
    }
    for (size_t k = 0; k < r.inputs.size(); ++k) {
      absl::Status status = ResolveInput(i, k);
      if (!status.ok()) {
        return Error(
            i, absl::StrCat("input ", k, " ('", Printable(r.inputs[k]), "') ", status.message()));
      }
    }
    const auto opaque = r.attrs.lower_bound(kOpaqueAttr);
    const bool is_opaque = opaque != r.attrs.end() && absl::StartsWith(opaque->first, kOpaqueAttr);
    ops_[i] = is_opaque ? nullptr : registry_.Find(r.op);
    can_build_[i] = true;
  }

  absl::Status ResolveInput(int i, int k) {
    MF_ASSIGN_OR_RETURN(const InputRef ref, ParseInputRef(records_[i].inputs[k]));
    if (ref.index != Use::kControl && k > 0 && links_[i].back().index == Use::kControl) {
      return absl::InvalidArgumentError("is a data input after a control input");
    }
    const auto it = by_name_.find(ref.node);
    if (it == by_name_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("refers to a node that does not exist", NearestNode(ref.node)));
    }
    links_[i].push_back({it->second, ref.index});
    num_used_outputs_[it->second] = std::max(num_used_outputs_[it->second], ref.index + 1);
    return absl::OkStatus();
  }

  std::string NearestNode(absl::string_view name) const {
    if (records_.size() > kMaxNodesForHint) return "";
    std::vector<std::string> names;
    for (const NodeRecord& r : records_) names.push_back(r.name);
    return DidYouMean(name, names);
  }

  std::vector<int> Order() {
    const TopologicalSort sort =
        SortTopologically(static_cast<int>(records_.size()), [&](int i, auto visit) {
          for (const Link& link : links_[i]) visit(link.record);
        });
    const bool is_loop = absl::c_any_of(
        sort.cycle, [&](int i) { return absl::EndsWith(records_[i].op, "NextIteration"); });
    if (is_loop) {
      const NodeRecord& first = records_[sort.cycle[0]];
      errors_.Add(absl::StrCat(
          first.where, "node '", Printable(first.name),
          "' is part of a TensorFlow 1 loop (Switch, Merge, Enter, Exit, NextIteration); expected "
          "a While or StatelessWhile: call tf.compat.v1.enable_control_flow_v2() before building "
          "the graph"));
    } else if (!sort.cycle.empty()) {
      errors_.Add(absl::StrCat(records_[sort.cycle[0]].where,
                               "the graph has a cycle: ", CycleToString(sort.cycle, [&](int i) {
                                 return Printable(records_[i].name);
                               })));
    }
    return sort.order;
  }

  // Creates an op that is not in the registry, with the inputs of its record and the outputs that
  // are used.
  absl::StatusOr<const OpDef*> UnknownOp(int i) {
    const int num_outputs = num_used_outputs_[i];
    if (num_outputs > kMaxUnknownOutputs) {
      return absl::InvalidArgumentError(absl::StrCat("unknown op has output ", num_outputs - 1,
                                                     "; expected an index below ",
                                                     kMaxUnknownOutputs));
    }
    return &graph_.UnknownOp(records_[i].op, num_outputs);
  }

  void Build(int i) {
    if (!can_build_[i]) return;
    std::vector<Output> inputs;
    std::vector<Node*> controls;
    for (size_t k = 0; k < links_[i].size(); ++k) {
      Node* const from = nodes_[links_[i][k].record];
      const int index = links_[i][k].index;
      if (from == nullptr) return;
      if (index == Use::kControl) {
        controls.push_back(from);
      } else if (index < from->num_outputs()) {
        inputs.push_back(from->output(index));
      } else {
        return Error(i,
                     absl::StrCat("input ", k, " ('", Printable(records_[i].inputs[k]),
                                  "') refers to an output that does not exist; expected an index "
                                  "below ",
                                  from->num_outputs(), ", got ", index));
      }
    }
    if (ops_[i] == nullptr) {
      const absl::StatusOr<const OpDef*> unknown = UnknownOp(i);
      if (!unknown.ok()) return Error(i, unknown.status().message());
      ops_[i] = *unknown;
    }
    LeaveOutText(*ops_[i], &records_[i].attrs, &inputs);
    records_[i].attrs.erase(kCreationScopeAttr);  // names a strategy in another process
    absl::StatusOr<Node*> node =
        graph_.AddNode(records_[i].name, *ops_[i], std::move(records_[i].attrs), std::move(inputs),
                       std::move(controls));
    absl::Status status = node.status();
    if (status.ok()) {
      num_outputs_ += (*node)->num_outputs();
      if (num_outputs_ > MaxOutputs(records_.size())) {
        return Error(
            i, absl::StrCat("too many outputs; expected at most ", MaxOutputs(records_.size()),
                            " in a graph of ", records_.size(), " nodes, got ", num_outputs_));
      }
      status = graph_.values().Infer(**node);
    }
    if (status.ok()) {
      nodes_[i] = *node;
    } else {
      errors_.Add(
          absl::StrCat(records_[i].where, status.message()));  // the message already names the node
    }
  }

  // Drops the inputs that come from unknown ops, such as text, if the op has no outputs and takes
  // tensors of any types: such an op (Assert) only prints them. Otherwise no graph with text could
  // run.
  static void LeaveOutText(const OpDef& op, AttrMap* attrs, std::vector<Output>* inputs) {
    if (op.inputs.empty() || !op.outputs.empty()) return;
    const std::string& types_attr = op.inputs.back().type_list_attr;
    const auto it = attrs->find(types_attr);
    if (types_attr.empty() || it == attrs->end()) return;
    const AttrList* types = it->second.get_if<AttrList>();
    if (types == nullptr || types->size() >= inputs->size()) return;  // also has other inputs
    const size_t first = inputs->size() - types->size();
    AttrList kept_types;
    std::vector<Output> kept(inputs->begin(), inputs->begin() + first);
    for (size_t k = first; k < inputs->size(); ++k) {
      if ((*inputs)[k].node->op().role == OpRole::kUnknown) continue;
      kept.push_back((*inputs)[k]);
      kept_types.push_back((*types)[k - first]);
    }
    if (kept_types.empty() && !types->empty()) {  // TensorFlow requires at least one
      kept.push_back(kept[0]);
      kept_types.push_back(AttrValue(op.inputs[0].dtype));  // an unknown op's output has no dtype
    }
    *inputs = std::move(kept);
    it->second = AttrValue(std::move(kept_types));
  }

  std::vector<NodeRecord> records_;
  const OpRegistry& registry_;
  ErrorList errors_;
  Graph graph_;
  absl::flat_hash_map<absl::string_view, int> by_name_;
  std::vector<const OpDef*> ops_;         // by record; null if unknown
  std::vector<char> can_build_;           // by record
  std::vector<int> num_used_outputs_;     // by record
  std::vector<std::vector<Link>> links_;  // by record
  std::vector<Node*> nodes_;              // by record; null if not built
  int64_t num_outputs_ = 0;
};

}  // namespace

absl::StatusOr<Graph> AssembleGraph(std::vector<NodeRecord> records, FunctionLibrary functions,
                                    const OpRegistry& registry, ErrorList errors) {
  return Assembler(std::move(records), registry, std::move(errors)).Run(std::move(functions));
}

absl::StatusOr<InputRef> ParseInputRef(absl::string_view text) {
  InputRef ref{text, 0};
  if (absl::ConsumePrefix(&ref.node, "^")) {
    ref.index = Use::kControl;
  } else if (const size_t colon = text.rfind(':'); colon != absl::string_view::npos) {
    ref.node = text.substr(0, colon);
    const absl::string_view digits = text.substr(colon + 1);
    // SimpleAtoi alone would accept signs and spaces.
    if (!absl::c_all_of(digits, absl::ascii_isdigit) || !absl::SimpleAtoi(digits, &ref.index)) {
      ref.node = "";
    }
  }
  if (!IsValidNodeName(ref.node)) {
    return absl::InvalidArgumentError("is malformed; expected 'node', 'node:output' or '^node'");
  }
  return ref;
}

}  // namespace mirrorflow
