// SPDX-License-Identifier: Apache-2.0
#include "tests/support/run_all.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "distribute/strategy/strategy.h"
#include "framework/core/status.h"
#include "framework/graph/graph_endpoints.h"

namespace mirrorflow {

absl::Status RunAll(const Graph& graph, const RunAllOptions& options) {
  const int64_t max_bytes = options.max_bytes;
  int64_t bytes = 0;
  const GraphEndpoints endpoints = FindGraphEndpoints(graph);
  std::vector<Output> feeds;
  std::vector<Tensor> values;
  for (const Output& feed : endpoints.feeds) {
    if (feed.node->num_inputs() > 0) continue;  // the placeholder has a default
    Shape shape = feed.node->attr<Shape>("shape");
    if (shape.unknown_rank()) continue;
    for (int d = 0; d < shape.rank(); ++d) {
      if (shape.dim(d) == kUnknownDim) shape.set_dim(d, d == 0 ? 12 : 1);
    }
    if (!shape.Validate(feed.dtype()).ok() || shape.num_elements() > max_bytes / 8) continue;
    bytes += shape.num_elements() * 8;
    if (bytes > max_bytes) return absl::ResourceExhaustedError("the feeds are too large");
    MF_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(feed.dtype(), shape));
    if (value.dtype() == DT_FLOAT) std::fill_n(value.data<float>(), value.num_elements(), 1.0f);
    feeds.push_back(feed);
    values.push_back(std::move(value));
  }
  MF_ASSIGN_OR_RETURN(
      const auto strategy,
      MirroredStrategy::Create(
          {.num_cpu_replicas = options.replicas,
           .threads_per_replica = 2,
           .collective_timeout = options.step_timeout,
           .step_timeout = options.step_timeout,
           .pin_threads = false,
           .max_bytes = max_bytes,
           .compile = {
               .microbatch_bytes = 1, .min_part_ns = 0, .verify = true, .check_plan = true}}));
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(graph));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare(feeds, endpoints.fetches, endpoints.targets));
  const absl::Status status = step.Run(values).status();
  if (status.code() == absl::StatusCode::kInternal || endpoints.fetches.empty()) return status;
  // Steps that write nothing run in micro-batches.
  MF_ASSIGN_OR_RETURN(Step inference, session->Prepare(feeds, endpoints.fetches, {}));
  const absl::Status in_microbatches = inference.Run(values).status();
  return in_microbatches.code() == absl::StatusCode::kInternal ? in_microbatches : status;
}

}  // namespace mirrorflow
