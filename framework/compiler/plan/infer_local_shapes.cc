// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/infer_local_shapes.h"

#include <utility>

namespace mirrorflow {

LocalShapes ShapesOfShard(const Compilation& c, const std::vector<int64_t>& rows) {
  LocalShapes shapes(c.graph.id_limit());
  for (const Node* node : c.graph.Nodes()) {
    for (int i = 0; i < node->num_outputs(); ++i) {
      Shape shape = c.values().shape(node->output(i));
      if (const Sharded* s = AsSharded(c.shardings.at(node->output(i)))) {
        shape.set_dim(s->dim, rows[s->axis] * s->factor);
      }
      shapes[node->id()].push_back(std::move(shape));
    }
  }
  return shapes;
}

absl::StatusOr<bool> InferLocalShapes::Run(PlanState& s) {
  s.shapes = ShapesOfShard(s, s.plan->axis_rows);
  // On a single replica, feeds and fetches are not distributed; shardings only mark rows.
  const auto sharding = [&s](const Output& value) {
    return s.shard ? s.shardings.at(value) : Sharding(Replicated());
  };
  for (const Output& feed : s.feeds) {
    s.plan->feeds.push_back(
        {feed.dtype(), s.local_shape(feed), s.values().shape(feed), sharding(feed)});
  }
  for (const Output& fetch : s.fetches) {
    s.plan->fetches.push_back({.dtype = fetch.dtype(),
                               .local_shape = s.local_shape(fetch),
                               .global_shape = s.values().shape(fetch),
                               .sharding = sharding(fetch)});
  }
  return true;
}

}  // namespace mirrorflow
