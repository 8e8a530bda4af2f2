// SPDX-License-Identifier: Apache-2.0
//
// ReverseV2 on the CPU: a copy that reads backwards.
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateReverse(const KernelContext& c) {
  const Shape& shape = c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c.integers(1));
  const std::vector<int64_t> strides = shape.Strides();
  std::vector<StridedCopy::Dim> dims;
  for (int d = 0; d < shape.rank(); ++d) dims.push_back({shape.dim(d), strides[d], strides[d]});
  int64_t last = 0;
  for (int64_t given : axes) {
    MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given, shape.rank()));
    dims[axis].in_stride = -strides[axis];
    last += (shape.dim(axis) - 1) * strides[axis];
  }
  const DataType dtype = c.output_dtype(0);
  return CopyKernel(dtype, {{0, 0, StridedCopy(dtype, dims, /*in_offset=*/last)}});
}

}  // namespace

void RegisterReverseCpu(KernelRegistry& kernels) {
  kernels.Register("ReverseV2", "CPU", CreateReverse);
}

}  // namespace mirrorflow
