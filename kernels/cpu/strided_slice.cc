// SPDX-License-Identifier: Apache-2.0
//
// StridedSlice and its gradient on the CPU. Both run the same loops; one reads the slice and the
// other writes it. Bounds are resolved against the local shape. The slice always includes all of a
// sharded dimension, regardless of its length.
#include "ops/strided_slice.h"

#include "framework/core/status.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

// The first element, sizes and strides of a slice.
struct Loops {
  int64_t first = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

absl::StatusOr<Loops> LoopsOf(const KernelContext& c, const Shape& whole, const Shape& slice) {
  std::vector<int64_t> values[3];
  for (int i = 0; i < 3; ++i) {
    MF_ASSIGN_OR_RETURN(values[i], IntegersOf(c.constant(1 + i)));
  }
  MF_ASSIGN_OR_RETURN(const StridedSliceSpec spec,
                      ReadStridedSlice(whole, static_cast<int>(values[0].size()), values[0],
                                       values[1], values[2], StridedSliceMasks::Of(c.node())));
  if (spec.output_shape() != slice) {
    return absl::InternalError(absl::StrCat("wrong shape of the slice; expected ",
                                            spec.output_shape().ToString(), ", got ",
                                            slice.ToString()));
  }
  Loops loops;
  const std::vector<int64_t> whole_strides = whole.Strides();
  for (int d = 0; d < whole.rank(); ++d) {
    loops.first += spec.dims[d].begin * whole_strides[d];
    loops.sizes.push_back(spec.dims[d].size);
    loops.strides.push_back(spec.dims[d].stride * whole_strides[d]);
  }
  return loops;
}

absl::StatusOr<KernelPlan> CreateStridedSlice(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Loops loops, LoopsOf(c, c.input_shape(0), c.output_shape(0)));
  const std::vector<int64_t> packed = Shape(absl::MakeConstSpan(loops.sizes)).Strides();
  std::vector<StridedCopy::Dim> dims;
  for (size_t d = 0; d < packed.size(); ++d) {
    dims.push_back({loops.sizes[d], loops.strides[d], packed[d]});
  }
  const DataType dtype = c.output_dtype(0);
  return CopyKernel(dtype, {{0, 0, StridedCopy(dtype, dims, loops.first)}});
}

absl::StatusOr<KernelPlan> CreateStridedSliceGrad(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const Loops loops, LoopsOf(c, c.output_shape(0), c.input_shape(4)));
  const std::vector<int64_t> packed = Shape(absl::MakeConstSpan(loops.sizes)).Strides();
  std::vector<StridedCopy::Dim> dims;
  for (size_t d = 0; d < packed.size(); ++d) {
    dims.push_back({loops.sizes[d], packed[d], loops.strides[d]});
  }
  const DataType dtype = c.output_dtype(0);
  return CopyKernel(dtype, {{4, 0, StridedCopy(dtype, dims, 0, loops.first)}},
                    BytesOf(dtype, c.output_shape(0)));
}

}  // namespace

void RegisterStridedSliceCpu(KernelRegistry& kernels) {
  kernels.Register("StridedSlice", "CPU", CreateStridedSlice);
  kernels.Register("StridedSliceGrad", "CPU", CreateStridedSliceGrad);
}

}  // namespace mirrorflow
