// SPDX-License-Identifier: Apache-2.0
//
// Runs a single node on the host, for constant folding, the reference interpreter and the op tests.
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
  // Sharding and global shape of each output, for ops that depend on them. Empty means replicated.
  absl::Span<const Sharding> output_shardings = {};
  absl::Span<const Shape> global_output_shapes = {};
  // Limit on the kernel's operations (KernelPlan::flops). EvaluateNode returns ResourceExhausted if
  // the kernel needs more.
  int64_t max_flops = std::numeric_limits<int64_t>::max();
};

// Runs the kernel of `node` on `inputs`, one tensor per input, and returns one tensor of shape
// `output_shapes[i]` for each output i. For a variable's handle, pass the tensor that holds the
// variable, which the kernel may change. `node` must not have role kVariable.
absl::StatusOr<std::vector<Tensor>> EvaluateNode(const Node& node, absl::Span<const Tensor> inputs,
                                                 absl::Span<const Shape> output_shapes,
                                                 const KernelRegistry& kernels,
                                                 const EvaluateOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_EVALUATE_NODE_H_
