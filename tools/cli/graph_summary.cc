// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/graph_summary.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/graph/shape_inference.h"
#include "framework/runtime/variable_layout.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

absl::string_view FirstPart(absl::string_view name) { return name.substr(0, name.find('/')); }

// Returns whether `part` is a scope of nodes that optimizers and ForInference add.
bool IsAdded(absl::string_view part) {
  constexpr absl::string_view kScopes[] = {
      "gradients", "train",           "gate",     "clip_by_global_norm",
      "inference", "moving_averages", "optimizer"};
  return absl::c_any_of(kScopes, [&](absl::string_view scope) {
    return part == scope || absl::StartsWith(part, absl::StrCat(scope, "_"));
  });
}

std::string TypeOf(const Graph& graph, const Output& output) {
  return absl::StrCat(DataTypeName(output.dtype()), graph.values().shape(output).ToString());
}

void AddVariable(const Node& node, std::map<std::string, int64_t>* parameters,
                 GraphSummary* summary) {
  const Shape& shape = node.attr<Shape>("shape");
  if (!shape.IsFullyDefined()) return;
  const int64_t elements = shape.num_elements();
  if (node.has_attr(kOptimizerStateAttr)) {
    summary->optimizer_state += elements;
  } else if (node.has_attr(kNotTrainableAttr)) {
    summary->other += elements;
  } else {
    summary->trainable += elements;
  }
  (*parameters)[std::string(FirstPart(node.name()))] += elements;
}

}  // namespace

GraphSummary Summarize(const Graph& graph) {
  GraphSummary summary;
  std::map<std::string, int64_t> parameters;  // by the first part of the name
  std::map<std::string, size_t> rows;
  std::vector<bool> depends(graph.id_limit());  // whether the node depends on a placeholder
  const absl::StatusOr<std::vector<Node*>> order = TopologicalOrder(graph);
  if (!order.ok()) return summary;
  for (const Node* node : *order) {
    if (node->op().role == OpRole::kVariable) AddVariable(*node, &parameters, &summary);
    if (node->op().role == OpRole::kPlaceholder) {
      depends[node->id()] = true;
      summary.inputs.push_back(absl::StrCat(node->name(), " ", TypeOf(graph, node->output(0))));
      continue;
    }
    for (const Output& in : node->inputs()) {
      if (depends[in.node->id()]) depends[node->id()] = true;
    }
    const std::string part(FirstPart(node->name()));
    if (!depends[node->id()] || node->num_outputs() == 0 || IsAdded(part)) continue;
    const auto [it, is_new] = rows.emplace(part, summary.layers.size());
    if (is_new) summary.layers.push_back({.name = part});
    LayerSummary& layer = summary.layers[it->second];
    layer.op = node->op().name;
    layer.output = TypeOf(graph, node->output(0));
  }
  for (LayerSummary& layer : summary.layers) layer.parameters = parameters[layer.name];
  return summary;
}

std::string ToString(const GraphSummary& summary, size_t max_layers) {
  std::string text = absl::StrCat("inputs: ", absl::StrJoin(summary.inputs, ", "), "\n\n");
  absl::StrAppendFormat(&text, "%-28s %-34s %-24s %12s\n", "layer", "last op", "output",
                        "parameters");
  for (size_t i = 0; i < std::min(max_layers, summary.layers.size()); ++i) {
    const LayerSummary& layer = summary.layers[i];
    absl::StrAppendFormat(&text, "%-28s %-34s %-24s %12d\n", layer.name, layer.op, layer.output,
                          layer.parameters);
  }
  if (summary.layers.size() > max_layers) {
    absl::StrAppend(&text, "... and ", summary.layers.size() - max_layers, " more\n");
  }
  absl::StrAppend(&text, "\nparameters: ", summary.trainable, " trainable, ",
                  summary.optimizer_state, " in optimizer state, ", summary.other, " other\n");
  return text;
}

}  // namespace mirrorflow
