// SPDX-License-Identifier: Apache-2.0
#include "tools/graph_names.h"

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/graph/op_registry.h"
#include "ops/registry.h"

namespace mirrorflow {
namespace {

// Larger graphs get no hints: the cost of the search for near names grows with their number.
constexpr int kMaxNodesForHints = 100'000;
constexpr size_t kMaxHints = 3;

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
        "not the name of a tensor; expected NODE or NODE:OUTPUT, got '", Printable(name), "'"));
  }
  MF_ASSIGN_OR_RETURN(Node * node, NodeByName(graph, name.substr(0, colon)));
  if (node->op().role == OpRole::kUnknown && AllOps().Find(node->op().name) != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        OpAndName(*node), ": it handles text or another dtype that no tensor here can hold"));
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

}  // namespace mirrorflow
