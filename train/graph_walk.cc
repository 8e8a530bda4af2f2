// SPDX-License-Identifier: Apache-2.0
#include "train/graph_walk.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"

namespace mirrorflow {
namespace {

// Rewrites outputs and operations. Each node that differs is copied once, even if it is used
// several times.
class Copier {
 public:
  Copier(Graph& graph, const CopyOptions& options) : graph_(graph), options_(options) {}

  // Returns the output that replaces `x`, whose node has been rewritten.
  Output Now(const Output& x) const {
    const auto it = outputs_.find(x);
    return it == outputs_.end() ? x : it->second;
  }
  Node* Now(Node* node) const {
    const auto it = copies_.find(node);
    return it == copies_.end() ? node : it->second;
  }

  // Rewrites the node and everything that it depends on.
  absl::Status Rewrite(Node* root) {
    for (Node* node : NewOrder(root)) {
      if (const Output instead = OutputFromAttr(*node, options_.replacement_attr);
          instead.valid()) {
        outputs_[node->output(0)] = Now(instead);
      } else {
        MF_RETURN_IF_ERROR(RewriteOne(node));
      }
    }
    return absl::OkStatus();
  }

  // Rewrites an operation and, if it is a group, the operations in it.
  absl::Status RewriteOperation(Node* node) {
    MF_RETURN_IF_ERROR(Rewrite(node));
    if (node->num_inputs() > 0) return absl::OkStatus();
    std::vector<Node*> controls;
    bool differs = false;
    for (Node* const control : node->control_inputs()) {
      MF_RETURN_IF_ERROR(RewriteOperation(control));
      controls.push_back(Now(control));
      differs |= controls.back() != control;
    }
    return differs ? Copy(node, node->attrs(), {}, std::move(controls)) : absl::OkStatus();
  }

 private:
  // Returns `root` and every node that its rewritten form depends on, in topological order.
  std::vector<Node*> NewOrder(Node* root) const {
    std::vector<Node*> order;
    absl::flat_hash_set<const Node*> seen = {root};
    std::vector<std::pair<Node*, int>> open = {{root, 0}};  // (node, next input to visit)
    while (!open.empty()) {
      Node* const node = open.back().first;
      const int i = open.back().second++;
      const Output instead = OutputFromAttr(*node, options_.replacement_attr);
      if (i == (instead.valid() ? 1 : node->num_inputs())) {
        order.push_back(node);
        open.pop_back();
        continue;
      }
      Node* const from = instead.valid() ? instead.node : node->input(i).node;
      if (seen.insert(from).second) open.emplace_back(from, 0);
    }
    return order;
  }

  absl::Status RewriteOne(Node* node) {
    if (copies_.contains(node)) return absl::OkStatus();
    AttrMap attrs = node->attrs();
    bool differs = options_.change_attrs != nullptr && options_.change_attrs(attrs);
    std::vector<Output> inputs;
    for (const Output& in : node->inputs()) {
      inputs.push_back(Now(in));
      differs |= inputs.back() != in;
    }
    if (!differs) return absl::OkStatus();
    const absl::Span<Node* const> controls = node->control_inputs();
    return Copy(node, std::move(attrs), std::move(inputs), {controls.begin(), controls.end()});
  }

  absl::Status Copy(Node* node, AttrMap attrs, std::vector<Output> inputs,
                    std::vector<Node*> controls) {
    // Reserve the prefix with the first copy; if nothing is copied, the prefix remains available.
    if (prefix_.empty()) prefix_ = graph_.UniquePrefix(options_.prefix) + "/";
    MF_ASSIGN_OR_RETURN(Node * made,
                        graph_.AddNode(graph_.UniqueName(prefix_ + node->name()), node->op(),
                                       std::move(attrs), std::move(inputs), std::move(controls)));
    MF_RETURN_IF_ERROR(graph_.values().Infer(*made));
    copies_[node] = made;
    for (int i = 0; i < node->num_outputs(); ++i) outputs_[node->output(i)] = made->output(i);
    return absl::OkStatus();
  }

  Graph& graph_;
  const CopyOptions& options_;
  std::string prefix_;
  absl::flat_hash_map<Output, Output> outputs_;
  absl::flat_hash_map<Node*, Node*> copies_;
};

}  // namespace

Output OutputFromAttr(const Node& node, const char* attr) {
  if (!node.has_attr(attr)) return Output();
  const absl::string_view name = node.attr<std::string>(attr);
  const size_t colon = name.rfind(':');
  int index = 0;
  if (colon != absl::string_view::npos && !absl::SimpleAtoi(name.substr(colon + 1), &index)) {
    return Output();
  }
  Node* found = node.graph().FindNode(name.substr(0, colon));
  const bool exists = found != nullptr && index >= 0 && index < found->num_outputs();
  return exists ? found->output(index) : Output();
}

std::vector<bool> FindAncestors(const Graph& graph, absl::Span<const Output> outputs) {
  std::vector<bool> ancestors(graph.id_limit());
  std::vector<const Node*> open;
  for (const Output& output : outputs) {
    if (graph.Owns(output.node)) open.push_back(output.node);
  }
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (ancestors[node->id()]) continue;
    ancestors[node->id()] = true;
    for (const Output& in : node->inputs()) open.push_back(in.node);
  }
  return ancestors;
}

Output CopyWithChanges(const Scope& scope, const Output& output, const CopyOptions& options) {
  if (!scope.ok() || !output.valid() || !scope.Owns(output)) return Output();
  Copier copier(scope.graph(), options);
  absl::Status status = copier.Rewrite(output.node);
  if (status.ok()) return copier.Now(output);
  scope.Fail(std::move(status));
  return Output();
}

Operation CopyWithChanges(const Scope& scope, const Operation& operation,
                          const CopyOptions& options) {
  if (!scope.ok() || !operation.valid() || !scope.Owns({operation.node, 0})) return Operation();
  Copier copier(scope.graph(), options);
  absl::Status status = copier.RewriteOperation(operation.node);
  if (status.ok()) return Operation{copier.Now(operation.node)};
  scope.Fail(std::move(status));
  return Operation();
}

}  // namespace mirrorflow
