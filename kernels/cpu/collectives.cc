// SPDX-License-Identifier: Apache-2.0
//
// Explicit collectives on one replica, for EvaluateNode only. In a plan, collectives are
// instructions, the other ops are views, and NumReplicas is a constant.
#include <utility>
#include <vector>

#include "framework/runtime/kernel_registry.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateCopies(const KernelContext& c) {
  const DataType dtype = c.output_dtype(0);
  std::vector<Move> moves;
  for (int i = 0; i < c.node().num_outputs(); ++i) {
    moves.push_back({i, i, StridedCopy(dtype, {{c.output_shape(i).num_elements(), 1, 1}})});
  }
  return CopyKernel(dtype, std::move(moves));
}

absl::StatusOr<KernelPlan> CreateOne(const KernelContext&) {
  return ConstantKernel({Tensor::Scalar<int32_t>(1)});
}

}  // namespace

void RegisterCollectivesCpu(KernelRegistry& kernels) {
  for (const char* op :
       {"AllReduce", "ReduceScatter", "AllGather", "LocalPart", "EnsureReplicated"}) {
    kernels.Register(op, "CPU", CreateCopies);
  }
  kernels.Register("NumReplicas", "CPU", CreateOne);
}

}  // namespace mirrorflow
