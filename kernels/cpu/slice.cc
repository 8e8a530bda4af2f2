// SPDX-License-Identifier: Apache-2.0
//
// Slice, Pad and PadV2 on the CPU, as copies of a box of elements. Sizes are taken from one
// replica's local shapes; a sharded dimension begins at 0 in both input and output.
#include "framework/core/status.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

// Returns loops that copy all elements of `box` from a tensor of shape `in` to one of shape `out`.
// Both are at least as large as `box`.
std::vector<StridedCopy::Dim> BoxOf(const Shape& box, const Shape& in, const Shape& out) {
  const std::vector<int64_t> in_strides = in.Strides(), out_strides = out.Strides();
  std::vector<StridedCopy::Dim> dims;
  for (int d = 0; d < box.rank(); ++d) dims.push_back({box.dim(d), in_strides[d], out_strides[d]});
  return dims;
}

absl::StatusOr<KernelPlan> CreateSlice(const KernelContext& c) {
  const Shape &in = c.input_shape(0), &out = c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> begin, c.integers(1));
  const std::vector<int64_t> in_strides = in.Strides();
  int64_t first = 0;
  for (int d = 0; d < in.rank(); ++d) first += begin[d] * in_strides[d];
  const DataType dtype = c.output_dtype(0);
  return CopyKernel(dtype, {{0, 0, StridedCopy(dtype, BoxOf(out, in, out), first)}});
}

absl::StatusOr<KernelPlan> CreatePad(const KernelContext& c) {
  const Shape &in = c.input_shape(0), &out = c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> paddings, c.integers(1));
  const std::vector<int64_t> out_strides = out.Strides();
  int64_t first = 0;
  for (int d = 0; d < out.rank(); ++d) first += paddings[2 * d] * out_strides[d];
  const DataType dtype = c.output_dtype(0);
  std::vector<Move> moves;
  const bool by_value = c.node().num_inputs() == 3;  // PadV2
  if (by_value && in != out)
    moves.push_back({2, 0, StridedCopy(dtype, {{out.num_elements(), 0, 1}})});
  moves.push_back({0, 0, StridedCopy(dtype, BoxOf(in, in, out), 0, first)});
  return CopyKernel(dtype, std::move(moves),
                    /*zero_bytes=*/by_value || in == out ? 0 : BytesOf(dtype, out));
}

}  // namespace

void RegisterSliceCpu(KernelRegistry& kernels) {
  kernels.Register("Slice", "CPU", CreateSlice);
  kernels.Register("Pad", "CPU", CreatePad);
  kernels.Register("PadV2", "CPU", CreatePad);
}

}  // namespace mirrorflow
