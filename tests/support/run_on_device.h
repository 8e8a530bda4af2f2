// SPDX-License-Identifier: Apache-2.0
//
// Runs single nodes on a device whose memory the host cannot reach, as badly as a plan may.
#ifndef MIRRORFLOW_TESTS_SUPPORT_RUN_ON_DEVICE_H_
#define MIRRORFLOW_TESTS_SUPPORT_RUN_ON_DEVICE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/tensor.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/device.h"
#include "framework/runtime/kernel_registry.h"
#include "tests/support/op_cases.h"
#include "tests/support/op_checks.h"

namespace mirrorflow {

// What one replica has of a node, as EvaluateOptions say it for the CPU.
struct ShareOptions {
  StepParams params;
  // How each output lies on the replicas, and the shape of this one's share; empty: replicated.
  std::vector<Sharding> output_shardings = {};
  std::vector<Shape> output_shapes = {};
};

// The kernels of many nodes, made as those of one plan are.
class NodesOnDevice {
 public:
  NodesOnDevice(Device* device, const KernelRegistry* kernels);

  // Makes the kernel of `node`, which must stay. The node's number, or the factory's error.
  absl::StatusOr<int> Add(const CaseNode& node, const ShareOptions& share = {});
  // Once, behind all Add and before any Run.
  absl::Status Finish();
  // The results; variables among the node's inputs change. As for EvaluateStrictly: operands have
  // the alignment of an element, outputs and scratch are full of garbage, and it is Internal if the
  // kernel writes to an input, outside of its outputs and scratch, or computes something else where
  // an output lies on an input that it may be written over.
  absl::StatusOr<std::vector<Tensor>> Run(int number);

 private:
  struct Made {
    const CaseNode* node;
    KernelPlan plan;
    StepParams params;
    std::vector<Shape> output_shapes;
  };
  absl::StatusOr<std::vector<Tensor>> RunWith(const Made& made, const std::pair<int, int>* pair,
                                              std::vector<Tensor>* variables);

  Device& device_;
  const KernelRegistry& kernels_;
  const std::unique_ptr<KernelLibrary> library_;
  std::vector<Made> made_;
};

// A node's context without a device, as NodesOnDevice makes it.
std::unique_ptr<KernelContext> ContextOf(const CaseNode& node, KernelLibrary* library);

// Runs all cases, whose results are known or computed on a CPU by `kernels` too, and compares. They
// may differ by `absolute` besides what ToleranceOf says.
CheckReport CheckCasesOnDevice(absl::Span<const OpCase> cases, const OpRegistry& ops,
                               const KernelRegistry& kernels, Device& device, double absolute);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_RUN_ON_DEVICE_H_
