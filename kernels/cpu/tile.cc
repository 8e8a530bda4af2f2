// SPDX-License-Identifier: Apache-2.0
//
// Tile and BroadcastTo on the CPU. The number of copies is derived from the local shapes, because
// the operand that specifies it describes the global tensor.
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> CreateRepeat(const KernelContext& c) {
  const Shape &in = c.input_shape(0), &out = c.output_shape(0);
  const std::vector<int64_t> in_strides = in.Strides(), out_strides = out.Strides();
  const int offset = out.rank() - in.rank();
  std::vector<StridedCopy::Dim> dims;
  for (int d = 0; d < out.rank(); ++d) {
    const int64_t block = d < offset ? 1 : in.dim(d - offset);
    const int64_t copies = block == 0 ? 0 : out.dim(d) / block;
    dims.push_back({copies, 0, block * out_strides[d]});
    if (d >= offset) dims.push_back({block, in_strides[d - offset], out_strides[d]});
  }
  return CopyKernel(c.output_dtype(0), {{0, 0, StridedCopy(c.output_dtype(0), dims)}});
}

}  // namespace

void RegisterTileCpu(KernelRegistry& kernels) {
  kernels.Register("Tile", "CPU", CreateRepeat);
  kernels.Register("BroadcastTo", "CPU", CreateRepeat);
}

}  // namespace mirrorflow
