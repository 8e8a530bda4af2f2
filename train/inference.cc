// SPDX-License-Identifier: Apache-2.0
#include "train/inference.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "train/graph_walk.h"

namespace mirrorflow {
namespace {

constexpr char kIsTraining[] = "is_training";  // TensorFlow's attribute name

// Returns the output that replaces output 0 of the node in inference, or an invalid one if the node
// has no replacement.
Output Instead(const Graph& graph, const Node& node) {
  if (!node.has_attr(kInferenceAttr)) return Output();
  return FindOutput(graph, node.attr<std::string>(kInferenceAttr));
}

// Returns the nodes that compute `output` in inference, each after its inputs.
std::vector<Node*> InferenceOrder(const Graph& graph, const Output& output) {
  std::vector<Node*> order;
  absl::flat_hash_set<const Node*> seen = {output.node};
  std::vector<std::pair<Node*, int>> open = {{output.node, 0}};  // with the next input to visit
  while (!open.empty()) {
    Node* const node = open.back().first;
    const int i = open.back().second++;
    const Output instead = Instead(graph, *node);
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

absl::StatusOr<Output> Rewrite(const Scope& scope, const Output& output) {
  Graph& graph = scope.graph();
  absl::flat_hash_map<Output, Output> replaced;
  auto now = [&](const Output& x) {
    const auto it = replaced.find(x);
    return it == replaced.end() ? x : it->second;
  };
  // Reserved with the first copy, so that a graph without differences reserves no prefix.
  std::string prefix;
  for (Node* node : InferenceOrder(graph, output)) {
    if (const Output instead = Instead(graph, *node); instead.valid()) {
      replaced[node->output(0)] = now(instead);
      continue;
    }
    AttrMap attrs = node->attrs();
    const auto training = attrs.find(kIsTraining);
    bool differs = training != attrs.end() && training->second == AttrValue(true);
    if (differs) training->second = false;
    std::vector<Output> inputs;
    for (const Output& in : node->inputs()) {
      inputs.push_back(now(in));
      differs |= inputs.back() != in;
    }
    if (!differs) continue;
    if (prefix.empty()) prefix = graph.UniquePrefix("inference") + "/";
    const absl::Span<Node* const> controls = node->control_inputs();
    MF_ASSIGN_OR_RETURN(Node * made, graph.AddNode(graph.UniqueName(prefix + node->name()),
                                                   node->op(), std::move(attrs), std::move(inputs),
                                                   {controls.begin(), controls.end()}));
    MF_RETURN_IF_ERROR(graph.values().Infer(*made));
    for (int i = 0; i < node->num_outputs(); ++i) replaced[node->output(i)] = made->output(i);
  }
  return now(output);
}

}  // namespace

Output ForInference(const Scope& scope, Output output) {
  if (!scope.ok() || !output.valid()) return Output();
  absl::StatusOr<Output> result = Rewrite(scope, output);
  if (result.ok()) return *result;
  scope.Fail(result.status());
  return Output();
}

}  // namespace mirrorflow
