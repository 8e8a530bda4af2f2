// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/find_batch_rows.h"

#include <iterator>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "distribute/passes/propagate_sharding.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// Returns a copy of the step for two replicas. Nodes keep their ids.
Compilation CopyForTwoReplicas(const Compilation& c) {
  Compilation copy;
  copy.graph = c.graph.Clone();
  const auto own = [&copy](const Output& value) {
    return copy.graph.node(value.node->id())->output(value.index);
  };
  absl::c_transform(c.feeds, std::back_inserter(copy.feeds), own);
  absl::c_transform(c.fetches, std::back_inserter(copy.fetches), own);
  for (const Node* target : c.targets) copy.targets.push_back(copy.graph.node(target->id()));
  copy.ops = c.ops;
  copy.layout = c.layout;
  copy.feed_shapes = c.feed_shapes;
  copy.world.size = 2;
  return copy;
}

// Returns whether micro-batches could make the step faster: it writes no variables, and at least
// one node accesses more than microbatch_bytes.
bool MayGain(const Compilation& c) {
  bool is_large = false;
  for (const Node* node : c.graph.Nodes()) {
    if (node->op().role == OpRole::kWrite) return false;
    int64_t bytes = 0;
    const auto add = [&](const Output& value) {
      if (value.dtype() != DT_RESOURCE) bytes += c.ValueBytes(value);
    };
    absl::c_for_each(node->inputs(), add);
    for (int i = 0; i < node->num_outputs(); ++i) add(node->output(i));
    is_large |= bytes > c.options.microbatch_bytes;
  }
  return is_large && c.options.microbatch_bytes > 0;
}

}  // namespace

absl::StatusOr<bool> FindBatchRows::Run(Compilation& c) {
  if (c.shard || c.world.size > 1 || c.is_body || !c.bodies.empty()) return false;
  if (!MayGain(c)) return false;
  Compilation sharded = CopyForTwoReplicas(c);
  // An error only means that the step cannot be sharded. It can still run on one replica.
  if (!PropagateSharding().Run(sharded).ok() || sharded.axes.size() != 1) return false;
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  for (const Node* node : order) {
    const Node* const copy = sharded.graph.node(node->id());
    if (copy == nullptr) continue;  // replaced with its decomposition
    const Shardings& required = sharded.required_inputs[node->id()];
    bool is_row_wise = true;
    for (int i = 0; i < node->num_inputs(); ++i) {
      const Sharding needs = required.empty() ? Sharding(Replicated()) : required[i];
      is_row_wise &= c.shardings.at(node->input(i)) == needs;
    }
    for (int i = 0; i < node->num_outputs(); ++i) {
      is_row_wise &= !IsPerReplica(sharded.shardings.at(copy->output(i)));
    }
    for (int i = 0; i < node->num_outputs() && is_row_wise; ++i) {
      const Sharding& sharding = sharded.shardings.at(copy->output(i));
      if (AsSharded(sharding) != nullptr) c.shardings.Set(node->output(i), sharding);
    }
  }
  c.axes = std::move(sharded.axes);
  return true;
}

}  // namespace mirrorflow
