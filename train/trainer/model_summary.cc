// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/model_summary.h"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/graph/shape_inference.h"
#include "train/graph_walk.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

struct Layer {
  std::string name;
  Output output;  // invalid if no other layer uses it
  int64_t parameters = 0;
};

struct Count {
  int64_t parameters = 0;
  double bytes = 0;

  void Add(const Node& variable) {
    const int64_t size = variable.attr<Shape>("shape").num_elements();
    parameters += size;
    bytes += static_cast<double>(size) *
             static_cast<double>(DataTypeSize(variable.attr<DataType>("dtype")));
  }
};

bool IsVariable(const Node& node) { return node.op().role == OpRole::kVariable; }

std::string LayerOf(const Node& node) { return node.name().substr(0, node.name().find('/')); }

// Returns the node of `operation` and all nodes that it depends on.
std::set<const Node*> NodesFor(const Operation& operation) {
  std::set<const Node*> found;
  std::vector<const Node*> open = {operation.node};
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    if (node == nullptr || !found.insert(node).second) continue;
    for (const Output& in : node->inputs()) open.push_back(in.node);
    for (const Node* in : node->control_inputs()) open.push_back(in);
  }
  return found;
}

// Formats 1234567 as "1,234,567".
std::string WithSeparators(int64_t number) {
  std::string text = absl::StrCat(number);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) text.insert(at, 1, ',');
  return text;
}

std::string CountLine(absl::string_view what, const Count& count) {
  return absl::StrFormat("%-20s %15s  %.2f MB\n", what, WithSeparators(count.parameters),
                         count.bytes / 1e6);
}

}  // namespace

std::string ModelSummary(const Model& model) {
  const Output result = model.predictions.valid() ? model.predictions : model.loss;
  if (!result.valid()) return "";
  const Graph& graph = result.node->graph();
  const std::vector<bool> is_needed = FindAncestors(graph, {result});
  std::vector<Layer> layers;
  std::map<std::string, size_t> index;
  Count all, not_trained, of_optimizer;
  for (const Node* const node : graph.Nodes()) {
    if (!is_needed[node->id()]) continue;
    // A constant outside of any scope is a number in the program, not a layer.
    const bool is_number = node->op().role == OpRole::kConstant;
    const std::string name = LayerOf(*node);
    if (is_number && name == node->name()) continue;
    const auto [it, is_new] = index.try_emplace(name, layers.size());
    if (is_new) layers.push_back({.name = name});
    Layer& layer = layers[it->second];
    if (IsVariable(*node)) {
      layer.parameters += node->attr<Shape>("shape").num_elements();
      all.Add(*node);
      if (node->has_attr(kNotTrainableAttr)) not_trained.Add(*node);
      continue;
    }
    const auto is_outside = [&](const Use& use) {
      return use.slot != Use::kControl && is_needed[use.user->id()] && LayerOf(*use.user) != name;
    };
    for (const Use& use : node->uses()) {
      if (is_outside(use)) layer.output = use.user->input(use.slot);
    }
    if (node == result.node) layer.output = result;
  }
  for (const Node* const node : NodesFor(model.train)) {
    if (IsVariable(*node) && !is_needed[node->id()]) of_optimizer.Add(*node);
  }
  std::string text = absl::StrFormat("%-32s %-24s %12s\n", "layer", "output", "parameters");
  for (const Layer& layer : layers) {
    const std::string shape =
        layer.output.valid() ? graph.values().shape(layer.output).ToString() : "";
    absl::StrAppendFormat(&text, "%-32s %-24s %12s\n", layer.name, shape,
                          WithSeparators(layer.parameters));
  }
  absl::StrAppend(&text, "\n", CountLine("parameters", all));
  if (not_trained.parameters > 0) {
    absl::StrAppend(&text, CountLine("not trained", not_trained));
  }
  if (model.train.valid()) absl::StrAppend(&text, CountLine("optimizer", of_optimizer));
  return text;
}

}  // namespace mirrorflow
