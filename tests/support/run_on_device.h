// SPDX-License-Identifier: Apache-2.0
//
// Runs single nodes on a device whose memory the host cannot access, under the worst conditions
// that a plan can create.
#ifndef MIRRORFLOW_TESTS_SUPPORT_RUN_ON_DEVICE_H_
#define MIRRORFLOW_TESTS_SUPPORT_RUN_ON_DEVICE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/tensor.h"
#include "framework/graph/sharding.h"
#include "framework/runtime/device.h"
#include "framework/runtime/kernel_options.h"
#include "framework/runtime/kernel_registry.h"
#include "framework/runtime/tuning_table.h"
#include "tests/support/op_cases.h"
#include "tests/support/op_checks.h"

namespace mirrorflow {

// One replica's shard of a node, as in EvaluateOptions for the CPU.
struct ShardOptions {
  StepParams params;
  // The sharding of each output and the shape of this replica's shard; replicated if empty.
  std::vector<Sharding> output_shardings = {};
  std::vector<Shape> output_shapes = {};
};

// The kernels of many nodes, created like the kernels of one plan.
class NodesOnDevice {
 public:
  // `tuning` is for KernelOptions::autotune.
  NodesOnDevice(Device* device, const KernelRegistry* kernels, const KernelOptions& options = {},
                TuningTable* tuning = nullptr);

  // Creates the kernel of `node`, which must outlive this object. Returns the number to pass to
  // Run, or the factory's error.
  absl::StatusOr<int> Add(const CaseNode& node, const ShardOptions& shard = {});
  // Call once, after every Add and before any Run.
  absl::Status Finish();
  // Runs the node and returns its results; changes the variables among its inputs. As in
  // EvaluateStrictly, operands are aligned only to their elements, and outputs and scratch start
  // with garbage. Returns Internal if the kernel writes to an input or outside its outputs and
  // scratch, or computes a different result when an output overwrites an input as declared.
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
  const KernelOptions options_;
  TuningTable* const tuning_;
  const std::unique_ptr<KernelLibrary> library_;
  std::vector<Made> made_;
};

// Returns the kernel context that NodesOnDevice would create for a node, but without a device.
std::unique_ptr<KernelContext> ContextOf(const CaseNode& node, KernelLibrary* library,
                                         const KernelOptions& options = {});

// Runs all cases and compares the results with the known ones, or with those that `kernels`
// computes on a CPU. In addition to ToleranceOf, results may differ by `units` rounding units of
// the case's largest floating-point dtype. This allows for terms of up to 1 that cancel: GPUs
// contract a multiplication and an addition to an FMA, which does not round the product. With
// allow_tf32, floats have the tolerance of half, whose fraction is as long as TF32's.
CheckReport CheckCasesOnDevice(absl::Span<const OpCase> cases, const OpRegistry& ops,
                               const KernelRegistry& kernels, Device& device, double units,
                               const KernelOptions& options = {}, TuningTable* tuning = nullptr);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_RUN_ON_DEVICE_H_
