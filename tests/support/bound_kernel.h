// SPDX-License-Identifier: Apache-2.0
//
// Creates one node's kernel and runs it many times, for benchmarks and for tests that run a kernel
// on several threads.
#ifndef MIRRORFLOW_TESTS_SUPPORT_BOUND_KERNEL_H_
#define MIRRORFLOW_TESTS_SUPPORT_BOUND_KERNEL_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/buffer.h"
#include "framework/core/tensor.h"
#include "framework/graph/graph.h"
#include "framework/runtime/kernel_registry.h"

namespace mirrorflow {

// Creates the CPU kernel of `node` for unsharded operands. As in EvaluateNode, the input for a
// handle is the variable itself. Reads only the shapes of inputs that are not static.
absl::StatusOr<KernelPlan> CreateKernel(const Node& node, absl::Span<const Tensor> inputs,
                                        absl::Span<const Shape> outputs,
                                        const KernelRegistry& kernels);

// The memory of one kernel's operands.
class KernelMemory {
 public:
  static absl::StatusOr<KernelMemory> Create(const Node& node, const KernelPlan& plan,
                                             std::vector<Tensor> inputs,
                                             absl::Span<const Shape> outputs);

  // Runs the kernel without allocating.
  absl::Status Run(const Kernel& kernel);
  const Tensor& input(int i) const { return inputs_[i]; }
  const Tensor& output(int i) const { return outputs_[i]; }

 private:
  std::vector<Tensor> inputs_;
  std::vector<Tensor> outputs_;
  std::shared_ptr<Buffer> scratch_;
  std::vector<std::byte*> bases_;
  std::vector<Operand> operands_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_BOUND_KERNEL_H_
