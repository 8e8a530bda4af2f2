// SPDX-License-Identifier: Apache-2.0
//
// BroadcastArgs and BroadcastGradientArgs on the CPU, for EvaluateNode only. A plan does not run
// them: their operands are static, so shape inference has already computed their results.
#include "ops/broadcast_gradient.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cpu/strided_copy.h"
#include "ops/shape_values.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateBroadcastGradientArgs(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> s0, c.integers(0));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> s1, c.integers(1));
  const auto axes = BroadcastAxes(Shape(s0), Shape(s1));
  std::vector<Tensor> outputs;
  for (int k = 0; k < 2; ++k) {
    const Shape shape({static_cast<int64_t>(axes[k].size())});
    if (c.output_shape(k) != shape) {
      return absl::InvalidArgumentError(absl::StrCat("output ", k, " has ", axes[k].size(),
                                                     " elements; expected shape ",
                                                     c.output_shape(k).ToString()));
    }
    outputs.push_back(IntegerTensor(c.output_dtype(k), shape, axes[k]));
  }
  return ConstantKernel(std::move(outputs));
}

absl::StatusOr<KernelPlan> CreateBroadcastArgs(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> s0, c.integers(0));
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> s1, c.integers(1));
  MF_ASSIGN_OR_RETURN(const Shape both, BroadcastShapes(Shape(s0), Shape(s1)));
  return ConstantKernel({IntegerTensor(c.output_dtype(0), Shape({both.rank()}), both.dims())});
}

}  // namespace

void RegisterBroadcastGradientCpu(KernelRegistry& kernels) {
  kernels.Register("BroadcastArgs", "CPU", CreateBroadcastArgs);
  kernels.Register("BroadcastGradientArgs", "CPU", CreateBroadcastGradientArgs);
}

}  // namespace mirrorflow
