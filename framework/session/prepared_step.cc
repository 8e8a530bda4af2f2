// SPDX-License-Identifier: Apache-2.0
#include "framework/session/prepared_step.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/op_registry.h"

namespace mirrorflow {

absl::StatusOr<StepSignature> ResolveSignature(const Graph& graph, absl::Span<const Output> feeds,
                                               absl::Span<const Output> fetches,
                                               absl::Span<const Operation> targets) {
  const auto own_node = [&](Node* node, absl::string_view what) -> absl::StatusOr<Node*> {
    absl::StatusOr<Node*> copy = graph.CopyOf(node, "session", "NewSession");
    if (copy.ok()) return copy;
    return absl::InvalidArgumentError(
        absl::StrCat(what, node == nullptr ? ": " : " ", copy.status().message()));
  };
  const auto own = [&](const Output& output, absl::string_view kind,
                       size_t index) -> absl::StatusOr<Output> {
    const std::string what = absl::StrCat(kind, " ", index);
    MF_ASSIGN_OR_RETURN(Node * node, own_node(output.node, what));
    if (output.index < 0 || output.index >= node->num_outputs()) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, " '", output.ToString(), "': no such output; expected an index from 0 to ",
          node->num_outputs() - 1, ", got ", output.index));
    }
    if (output.dtype() == DT_RESOURCE) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " '", output.ToString(),
                       "': a variable's handle has no value; use the output of "
                       "a read (Variable::value), or call Session::ReadVariable"));
    }
    return node->output(output.index);
  };
  StepSignature signature;
  for (size_t i = 0; i < feeds.size(); ++i) {
    MF_ASSIGN_OR_RETURN(const Output output, own(feeds[i], "feed", i));
    if (absl::c_linear_search(signature.feeds, output)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the feed ", output.ToString(), " is given twice; pass each feed once"));
    }
    signature.feeds.push_back(output);
  }
  for (size_t i = 0; i < fetches.size(); ++i) {
    MF_ASSIGN_OR_RETURN(signature.fetches.emplace_back(), own(fetches[i], "fetch", i));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    MF_ASSIGN_OR_RETURN(signature.targets.emplace_back(),
                        own_node(targets[i].node, absl::StrCat("target ", i)));
  }
  return signature;
}

bool ShowsWrites(const StepSignature& signature) {
  std::vector<const Node*> pending(signature.targets.begin(), signature.targets.end());
  for (const Output& fetch : signature.fetches) pending.push_back(fetch.node);
  absl::flat_hash_set<const Node*> seen;
  for (const Output& feed : signature.feeds) seen.insert(feed.node);  // fed values are not computed
  while (!pending.empty()) {
    const Node* const node = pending.back();
    pending.pop_back();
    if (!seen.insert(node).second) continue;
    if (node->op().role == OpRole::kWrite) return true;
    for (const Output& in : node->inputs()) pending.push_back(in.node);
    for (const Node* control : node->control_inputs()) pending.push_back(control);
  }
  return false;
}

}  // namespace mirrorflow
