// SPDX-License-Identifier: Apache-2.0
//
// BroadcastArgs and BroadcastGradientArgs on the CPU, for EvaluateNode only. Their operands are
// static, and from these shape inference already knows the results.
#include <array>

#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

template <typename T>
absl::StatusOr<KernelPlan> Plan(const KernelContext& c) {
  std::array<std::vector<int64_t>, 2> shape;
  for (int k = 0; k < 2; ++k) {
    MF_ASSIGN_OR_RETURN(shape[k], IntegersOf(c.constant(k)));
  }
  const size_t rank = std::max(shape[0].size(), shape[1].size());
  std::array<std::vector<T>, 2> axes;
  for (int k = 0; k < 2 && shape[0] != shape[1]; ++k) {
    const size_t missing = rank - shape[k].size();
    for (size_t i = 0; i < rank; ++i) {
      if (i < missing || shape[k][i - missing] == 1) axes[k].push_back(static_cast<T>(i));
    }
  }
  for (int k = 0; k < 2; ++k) {
    const int64_t n = static_cast<int64_t>(axes[k].size());
    if (c.output_shape(k) == Shape({n})) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "output ", k, " has ", n, " elements; expected shape ", c.output_shape(k).ToString()));
  }
  return ConstantKernel({Tensor::Vector<T>(axes[0]), Tensor::Vector<T>(axes[1])});
}

absl::StatusOr<KernelPlan> CreateBroadcastGradientArgs(const KernelContext& c) {
  if (c.output_dtype(0) == DT_INT32) return Plan<int32_t>(c);
  if (c.output_dtype(0) == DT_INT64) return Plan<int64_t>(c);
  return UnsupportedDataType(c.output_dtype(0));
}

absl::StatusOr<KernelPlan> CreateBroadcastArgs(const KernelContext& c) {
  std::vector<int64_t> both;
  for (int i = 0; i < 2; ++i) {
    MF_ASSIGN_OR_RETURN(std::vector<int64_t> dims, IntegersOf(c.constant(i)));
    if (dims.size() > both.size()) both.swap(dims);
    // `dims` is the shorter shape; a size of 1 in either yields to the other size.
    for (size_t d = 1; d <= dims.size(); ++d) {
      int64_t& size = both[both.size() - d];
      if (size == 1) size = dims[dims.size() - d];
    }
  }
  if (c.output_dtype(0) == DT_INT64) return ConstantKernel({Tensor::Vector<int64_t>(both)});
  const std::vector<int32_t> narrow(both.begin(), both.end());
  return ConstantKernel({Tensor::Vector<int32_t>(narrow)});
}

}  // namespace

void RegisterBroadcastGradientCpu(KernelRegistry& kernels) {
  kernels.Register("BroadcastArgs", "CPU", CreateBroadcastArgs);
  kernels.Register("BroadcastGradientArgs", "CPU", CreateBroadcastGradientArgs);
}

}  // namespace mirrorflow
