// SPDX-License-Identifier: Apache-2.0
#include "tests/support/compilation.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "distribute/collective/collective_ops.h"
#include "framework/core/status.h"
#include "framework/graph/text_form.h"
#include "ops/all/all_ops.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

const OpRegistry& Ops() {
  static const OpRegistry* const registry = [] {
    auto* ops = new OpRegistry();
    RegisterAllOps(*ops);
    RegisterCollectiveOps(*ops);
    return ops;
  }();
  return *registry;
}

absl::StatusOr<Output> FindOutput(const Graph& graph, const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, ':');
  Node* node = graph.FindNode(parts[0]);
  int index = 0;
  if (node == nullptr || (parts.size() > 1 && !absl::SimpleAtoi(parts[1], &index)) ||
      (index > 0 && index >= node->num_outputs())) {
    return absl::NotFoundError(absl::StrCat("the test's graph has no ", name));
  }
  return node->output(index);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TestCompilation>> ParseStep(absl::string_view text,
                                                           const StepNames& names) {
  auto step = std::make_unique<TestCompilation>();
  Compilation& c = step->c;
  MF_ASSIGN_OR_RETURN(c.graph, ParseGraph(text, Ops()));
  for (const auto& [name, shape] : names.feeds) {
    MF_ASSIGN_OR_RETURN(const Output feed, FindOutput(c.graph, name));
    c.feeds.push_back(feed);
    c.feed_shapes.push_back(shape);
  }
  for (const std::string& name : names.fetches) {
    MF_ASSIGN_OR_RETURN(const Output fetch, FindOutput(c.graph, name));
    c.fetches.push_back(fetch);
  }
  for (const std::string& name : names.targets) {
    MF_ASSIGN_OR_RETURN(const Output target, FindOutput(c.graph, name));
    c.targets.push_back(target.node);
  }
  MF_ASSIGN_OR_RETURN(step->layout, VariableLayout::Create(c.graph, names.bucket_bytes,
                                                           /*world_size=*/2));
  c.layout = &step->layout;
  c.ops = &Ops();
  c.kernels = &TestKernels();
  c.device_type = "CPU";
  return step;
}

std::string StepToText(const Compilation& c, const StepToTextOptions& options) {
  std::string text;
  const absl::StatusOr<std::vector<Node*>> order = TopologicalOrder(c.graph);
  if (!order.ok()) return order.status().ToString();
  for (const Node* node : *order) {
    absl::StrAppend(&text, node->CallString());
    if (node->has_attr("value")) {
      absl::StrAppend(&text, " = ", node->attrs().find("value")->second.ToString());
    }
    const bool has_value = node->num_outputs() > 0 && node->output_dtype(0) != DT_RESOURCE;
    if (options.shardings && has_value) {
      absl::StrAppend(&text, " : ", ShardingToString(c.shardings.at(node->output(0))));
    }
    text += '\n';
  }
  return text;
}

}  // namespace mirrorflow
