// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/bucket_collectives.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "distribute/collective/collective_ops.h"
#include "framework/compiler/bucket_gradients.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Returns, by node id, the number of collectives on the longest path to the node, excluding the
// node itself.
std::vector<int> CollectiveLevels(const Compilation& c, const std::vector<Node*>& order) {
  std::vector<int> level(c.graph.id_limit(), 0);
  for (const Node* node : order) {
    auto after = [&](const Node* in) {
      const int own = in->op().role == OpRole::kCollective ? 1 : 0;
      level[node->id()] = std::max(level[node->id()], level[in->id()] + own);
    };
    for (const Output& in : node->inputs()) after(in.node);
    for (const Node* control : node->control_inputs()) after(control);
  }
  return level;
}

// (level, dtype, reduction, layout bucket or -1). All-reduces with equal keys may share a
// collective.
using Key = std::tuple<int, DataType, std::string, int>;

absl::Status Join(Compilation& c, const std::vector<Node*>& members, int bucket) {
  if (members.size() == 1 && bucket < 0) return absl::OkStatus();  // already one collective
  std::vector<Output> inputs;
  for (const Node* member : members) inputs.push_back(member->input(0));
  const std::string name = bucket >= 0 ? absl::StrCat("all_reduce/bucket_", bucket)
                                       : absl::StrCat(members[0]->name(), "_joined");
  Node* joined = c.scope()
                     .WithName(name)
                     .Build(CollectiveOps(), kAllReduce)
                     .InputList(inputs)
                     .Attr("reduction", members[0]->attr<std::string>("reduction"))
                     .Attr("bucket", bucket)
                     .Finish();
  MF_RETURN_IF_ERROR(c.graph.status());
  for (size_t i = 0; i < members.size(); ++i) {
    c.ReplaceValue(members[i]->output(0), joined->output(static_cast<int>(i)));
    c.graph.ReplaceControlUses(members[i], joined);
    for (Node* control : members[i]->control_inputs()) c.graph.AddControlEdge(control, joined);
    c.graph.RemoveNode(members[i]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> BucketCollectives::Run(Compilation& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  const std::vector<int> level = CollectiveLevels(c, order);
  const BucketGradients gradients = FindBucketGradients(c);
  std::map<Key, std::vector<Node*>> groups;
  for (Node* node : order) {
    if (node->op().name != kAllReduce) continue;
    const auto gradient = gradients.find(node->output(0));
    const int bucket =
        gradient != gradients.end() ? c.layout->variables()[gradient->second].bucket : -1;
    groups[{level[node->id()], node->output_dtype(0), node->attr<std::string>("reduction"), bucket}]
        .push_back(node);
  }
  for (auto& [key, members] : groups) {
    const int bucket = std::get<3>(key);
    const auto variable = [&](const Node* node) -> const VariableInfo& {
      return c.layout->variables()[gradients.find(node->output(0))->second];
    };
    if (bucket >= 0) {
      std::ranges::sort(members, {}, [&](const Node* node) { return variable(node).offset; });
    }
    std::vector<Node*> run;
    int64_t bytes = 0;  // of the run
    int64_t end = 0;    // of the run in the layout's bucket
    for (Node* member : members) {
      const int64_t size = c.ValueBytes(member->output(0));
      bool fits = bytes + size <= small_bucket_bytes_;
      if (bucket >= 0) {
        // Each collective takes a run of gradients that are adjacent in memory. A variable that
        // this step does not train leaves a gap, and a new collective starts after the gap.
        const VariableInfo& v = variable(member);
        fits = v.offset == end;
        end = v.offset + static_cast<int64_t>(AlignUp(v.bytes()));
      }
      if (!run.empty() && !fits) {
        MF_RETURN_IF_ERROR(Join(c, run, bucket));
        run.clear();
        bytes = 0;
      }
      run.push_back(member);
      bytes += size;
    }
    MF_RETURN_IF_ERROR(Join(c, run, bucket));
  }
  return !groups.empty();
}

}  // namespace mirrorflow
