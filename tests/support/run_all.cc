// SPDX-License-Identifier: Apache-2.0
#include "tests/support/run_all.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "distribute/strategy/strategy.h"
#include "framework/core/status.h"

namespace mirrorflow {

absl::Status RunAll(const Graph& graph, const RunAllOptions& options) {
  const int64_t max_bytes = options.max_bytes;
  int64_t bytes = 0;
  StepSignature step;
  std::vector<Tensor> values;
  for (Node* node : graph.Nodes()) {
    const OpRole role = node->op().role;
    if (role == OpRole::kPlaceholder && node->num_inputs() == 0) {
      Shape shape = node->attr<Shape>("shape");
      if (shape.unknown_rank()) continue;
      for (int d = 0; d < shape.rank(); ++d) {
        if (shape.dim(d) == kUnknownDim) shape.set_dim(d, d == 0 ? 12 : 1);
      }
      if (!shape.Validate(node->output_dtype(0)).ok() || shape.num_elements() > max_bytes / 8) {
        continue;
      }
      bytes += shape.num_elements() * 8;
      if (bytes > max_bytes) return absl::ResourceExhaustedError("feeds");
      MF_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(node->output_dtype(0), shape));
      if (value.dtype() == DT_FLOAT) std::fill_n(value.data<float>(), value.num_elements(), 1.0f);
      step.feeds.push_back(node->output(0));
      values.push_back(std::move(value));
    } else if (node->uses().empty() && role != OpRole::kUnknown) {
      if (node->num_outputs() == 0) step.targets.push_back(node);
      if (node->num_outputs() > 0 && node->output_dtype(0) != DT_RESOURCE) {
        step.fetches.push_back(node->output(0));
      }
    }
  }
  MF_ASSIGN_OR_RETURN(const auto strategy,
                      MirroredStrategy::Create({.num_cpu_replicas = options.replicas,
                                                .collective_timeout = options.step_timeout,
                                                .step_timeout = options.step_timeout,
                                                .pin_threads = false,
                                                .max_bytes = max_bytes,
                                                .compile = {.verify = true, .check_plan = true}}));
  MF_ASSIGN_OR_RETURN(const auto session, strategy->NewSession(graph));
  std::vector<Operation> targets;
  for (Node* node : step.targets) targets.push_back({node});
  MF_ASSIGN_OR_RETURN(Step prepared, session->Prepare(step.feeds, step.fetches, targets));
  return prepared.Run(values).status();
}

}  // namespace mirrorflow
