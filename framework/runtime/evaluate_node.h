// SPDX-License-Identifier: Apache-2.0
//
// Runs one node, by itself, on the host: what constant folding, the reference interpreter and the
// op tests need.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_EVALUATE_NODE_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_EVALUATE_NODE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

struct EvaluateOptions {
  const char* device_type = "CPU";
  StepParams params;
  // How each output lies on the replicas, and its global shape, for ops that ask; empty:
  // replicated.
  absl::Span<const Sharding> output_shardings = {};
  absl::Span<const Shape> global_output_shapes = {};
  // ResourceExhausted in place of more work than this, as far as kernels tell theirs.
  int64_t max_flops = std::numeric_limits<int64_t>::max();
};

// Runs the kernel of `node` on `inputs` (one tensor an input; for a variable's handle the tensor
// that is the variable, which the kernel may change; a node of role kVariable is not run). Output
// `i` gets `output_shapes[i]`.
absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Node& node, absl::Span<const Tensor> inputs,
                                                 absl::Span<const Shape> output_shapes,
                                                 const KernelRegistry& kernels,
                                                 const EvaluateOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_EVALUATE_NODE_H_
