// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/passes/common_subexpressions.h"

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Returns true for nodes that only compute outputs. This includes reads: two reads with the same
// control inputs are ordered identically relative to the writes.
bool MayMerge(const Node& node) {
  const OpDef& op = node.op();
  if (op.role == OpRole::kRead || op.role == OpRole::kConstant) return true;
  return Computes(op) && !op.has(kStateful) && node.num_outputs() > 0;
}

// Appends an attribute to `key`. Appends a constant as raw bytes, because printing a batch-sized
// constant takes longer than the rest of the pass.
void AppendAttr(absl::string_view name, const AttrValue& value, std::string* key) {
  const Tensor* tensor = value.get_if<Tensor>();
  if (tensor == nullptr) {
    absl::StrAppend(key, " ", name, "=", value.ToString());
    return;
  }
  absl::StrAppend(key, " ", name, "=", DataTypeName(tensor->dtype()), tensor->shape().ToString());
  if (tensor->has_value()) {
    key->append(reinterpret_cast<const char*>(tensor->raw()), tensor->bytes());
  }
}

// Returns true if no node between the variable and this handle has control inputs.
bool IsFree(const Output& handle) {
  const Node* node = handle.node;
  while (node->control_inputs().empty() && node->op().has(kView) && node->num_inputs() > 0) {
    node = node->input(0).node;
  }
  return node->control_inputs().empty();
}

std::string Key(const Compilation& c, const Node& node) {
  std::vector<std::string> inputs;
  for (const Output& in : node.inputs()) {
    // All handles of a variable are equivalent, except those that carry control dependencies.
    const absl::StatusOr<std::string> variable =
        in.dtype() == DT_RESOURCE && IsFree(in) ? VariableName(in) : absl::NotFoundError("");
    inputs.push_back(variable.ok() ? absl::StrCat("@", *variable)
                                   : absl::StrCat(in.node->id(), ":", in.index));
  }
  if (node.op().has(kCommutative)) absl::c_sort(inputs);
  std::string key = node.op().name;
  for (const std::string& in : inputs) absl::StrAppend(&key, " ", in);
  std::vector<NodeId> controls;
  for (const Node* control : node.control_inputs()) controls.push_back(control->id());
  absl::c_sort(controls);
  for (NodeId id : controls) absl::StrAppend(&key, " ^", id);
  for (const auto& [name, value] : node.attrs()) AppendAttr(name, value, &key);
  return key;
}

}  // namespace

absl::StatusOr<bool> CommonSubexpressions::Run(Compilation& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  absl::flat_hash_map<std::string, Node*> first;
  bool changed = false;
  for (Node* node : order) {
    if (!MayMerge(*node)) continue;
    const auto [it, inserted] = first.emplace(Key(c, *node), node);
    if (inserted) continue;
    for (int i = 0; i < node->num_outputs(); ++i) {
      c.ReplaceValue(node->output(i), it->second->output(i));
    }
    c.ReplaceOperation(node, it->second);
    changed = true;
  }
  return c.RemoveDeadNodes() || changed;
}

}  // namespace mirrorflow
