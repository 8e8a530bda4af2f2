// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/step_selection.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/graph/graph_endpoints.h"
#include "framework/graph/op_registry.h"
#include "framework/graph/variable_handle.h"
#include "ops/registry.h"

ABSL_FLAG(
    std::vector<std::string>, fetch, {},
    "run: NAME prints a tensor, NAME=FILE.npy writes it; inspect, explain, bench step: NAME of "
    "a tensor that the step computes");
ABSL_FLAG(std::vector<std::string>, target, {},
          "run, inspect, explain, bench step: a node to run for its side effects");

namespace mirrorflow {
namespace {

// Errors have no hints for larger graphs, because finding similar names would take too long.
constexpr int kMaxNodesForHints = 100'000;
constexpr size_t kMaxHints = 3;

// Selects everything that the graph computes. Includes nodes with unknown ops, so that compiling
// the step reports them.
void SelectAll(const Graph& graph, StepSelection* step) {
  GraphEndpoints all = FindGraphEndpoints(graph);
  step->fetches = std::move(all.fetches);
  step->targets = std::move(all.targets);
  for (Node* node : all.unknown) step->targets.push_back({node});
}

bool IsFed(const StepSelection& step, const Output& output) {
  return std::find(step.feeds.begin(), step.feeds.end(), output) != step.feeds.end();
}

// Returns the nodes that a step's fetches and targets need, except those that are needed only to
// compute a fed value.
absl::flat_hash_set<const Node*> NeededBy(const StepSelection& step) {
  std::vector<const Node*> pending;
  const auto add = [&](const Output& output) {
    if (!IsFed(step, output)) pending.push_back(output.node);
  };
  for (const Output& fetch : step.fetches) add(fetch);
  for (const Operation& target : step.targets) pending.push_back(target.node);
  absl::flat_hash_set<const Node*> needed;
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (!needed.insert(node).second) continue;
    for (const Output& in : node->inputs()) add(in);
    pending.insert(pending.end(), node->control_inputs().begin(), node->control_inputs().end());
  }
  return needed;
}

}  // namespace

absl::StatusOr<Node*> NodeByName(const Graph& graph, absl::string_view name) {
  if (Node* node = graph.FindNode(name)) return node;
  std::vector<std::string> names;
  if (graph.num_nodes() <= kMaxNodesForHints) {
    for (const Node* node : graph.Nodes()) names.push_back(node->name());
  }
  return absl::InvalidArgumentError(absl::StrCat("the graph has no node '", Printable(name), "'",
                                                 DidYouMean(name, names, kMaxHints)));
}

absl::StatusOr<Output> OutputByName(const Graph& graph, absl::string_view name) {
  const size_t colon = name.find(':');
  int index = 0;
  if (colon != absl::string_view::npos && !absl::SimpleAtoi(name.substr(colon + 1), &index)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "malformed tensor name; expected NODE or NODE:OUTPUT, got '", Printable(name), "'"));
  }
  MF_ASSIGN_OR_RETURN(Node * node, NodeByName(graph, name.substr(0, colon)));
  if (node->op().role == OpRole::kUnknown && AllOps().Find(node->op().name) != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(OpAndName(*node), ": uses strings or another dtype that tensors cannot hold"));
  }
  if (node->op().role == OpRole::kUnknown) {
    std::vector<std::string> ops;
    for (const OpDef* op : AllOps().All()) ops.push_back(op->name);
    return absl::InvalidArgumentError(absl::StrCat(OpAndName(*node), ": unknown op",
                                                   DidYouMean(node->op().name, ops, kMaxHints)));
  }
  if (index >= 0 && index < node->num_outputs()) return node->output(index);
  return absl::InvalidArgumentError(absl::StrCat(
      OpAndName(*node), ": no output ", index, "; expected an index below ", node->num_outputs()));
}

std::set<std::string> VariablesReadBy(const StepSelection& step) {
  std::set<std::string> names;
  for (const Node* node : NeededBy(step)) {
    if (node->op().has(kOverwrites)) continue;
    for (const Output& in : node->inputs()) {
      if (in.dtype() != DT_RESOURCE) continue;
      const Node& variable = VariableOf(in);
      if (variable.op().role == OpRole::kVariable) names.insert(VariableName(variable));
    }
  }
  return names;
}

absl::StatusOr<std::vector<Operation>> TargetsFromFlags(const Graph& graph) {
  std::vector<Operation> targets;
  for (const std::string& name : absl::GetFlag(FLAGS_target)) {
    MF_ASSIGN_OR_RETURN(Node* const node,
                        Annotate(NodeByName(graph, name), absl::StrCat("--target ", name)));
    targets.push_back({node});
  }
  return targets;
}

absl::StatusOr<StepSelection> SelectStepFromFlags(const Graph& graph) {
  StepSelection step;
  for (const std::string& name : absl::GetFlag(FLAGS_fetch)) {
    MF_ASSIGN_OR_RETURN(step.fetches.emplace_back(),
                        Annotate(OutputByName(graph, name), absl::StrCat("--fetch ", name)));
  }
  MF_ASSIGN_OR_RETURN(step.targets, TargetsFromFlags(graph));
  return step;
}

absl::StatusOr<StepSelection> WithFeeds(const Graph& graph, StepSelection step, int64_t rows) {
  const bool all = step.fetches.empty() && step.targets.empty();
  if (all) SelectAll(graph, &step);
  const absl::flat_hash_set<const Node*> needed = NeededBy(step);
  for (const Node* node : graph.Nodes()) {
    if (node->op().role != OpRole::kPlaceholder) continue;
    if (!all && !needed.contains(node)) continue;
    if (IsFed(step, node->output(0))) continue;
    Shape shape = node->attr<Shape>("shape");
    if (shape.unknown_rank()) {
      return absl::InvalidArgumentError(absl::StrCat(
          node->name(), ": placeholder of unknown rank; expected a known rank to create a feed"));
    }
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape.dim(d) == kUnknownDim) shape.set_dim(d, d == 0 ? rows : 1);
    }
    step.feeds.push_back(node->output(0));
    step.shapes.push_back(shape);
  }
  return step;
}

}  // namespace mirrorflow
