// SPDX-License-Identifier: Apache-2.0
//
// StridedSlice and its gradient on the CPU. Both run the same loops; one reads the slice and the
// other writes it. Bounds are resolved against the local shape. The slice always includes all of a
// sharded dimension, regardless of its length.
#include "ops/strided_slice.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

// Copies `whole` to `slice`, or for the gradient, `slice` to zeros of the shape of `whole`.
template <bool kGradient>
absl::StatusOr<KernelPlan> Create(const KernelContext& c) {
  const Shape& whole = kGradient ? c.output_shape(0) : c.input_shape(0);
  const Shape& slice = kGradient ? c.input_shape(4) : c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const StridedSliceSpec spec, ReadStridedSlice(c, whole));
  if (spec.output_shape() != slice) {
    return absl::InternalError(absl::StrCat("wrong shape of the slice; expected ",
                                            spec.output_shape().ToString(), ", got ",
                                            slice.ToString()));
  }
  const std::vector<int64_t> strides = whole.Strides();
  std::vector<StridedCopy::Dim> dims;
  int64_t first = 0, packed = 1;
  for (int d = whole.rank() - 1; d >= 0; --d) {
    const StridedSliceSpec::Dim& dim = spec.dims[d];
    const int64_t stride = dim.stride * strides[d];
    dims.push_back(kGradient ? StridedCopy::Dim{dim.size, packed, stride}
                             : StridedCopy::Dim{dim.size, stride, packed});
    first += dim.begin * strides[d];
    packed *= dim.size;
  }
  std::reverse(dims.begin(), dims.end());
  const DataType dtype = c.output_dtype(0);
  if (!kGradient) return CopyKernel(dtype, {{0, 0, StridedCopy(dtype, dims, first)}});
  return CopyKernel(dtype, {{4, 0, StridedCopy(dtype, dims, 0, first)}}, BytesOf(dtype, whole));
}

}  // namespace

void RegisterStridedSliceCpu(KernelRegistry& kernels) {
  kernels.Register("StridedSlice", "CPU", Create</*kGradient=*/false>);
  kernels.Register("StridedSliceGrad", "CPU", Create</*kGradient=*/true>);
}

}  // namespace mirrorflow
