// SPDX-License-Identifier: Apache-2.0
//
// Ops that read an operand with different strides, or embed it in a larger value. Sizes are taken
// from one replica's local shapes.
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/moves.h"
#include "ops/strided_slice.h"

namespace mirrorflow {
namespace {

absl::StatusOr<KernelPlan> Strided(const KernelContext& c, std::vector<IndexDim> dims,
                                   int64_t offset = 0) {
  return MoveKernel(c, absl::StrCat("a0[", OffsetText("i", std::move(dims), offset), "]"));
}

absl::StatusOr<KernelPlan> CreateSlice(const KernelContext& c) {
  const Shape& out = c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> begin, c.integers(1));
  const std::vector<int64_t> strides = c.input_shape(0).Strides();
  std::vector<IndexDim> dims;
  int64_t first = 0;
  for (int d = 0; d < out.rank(); ++d) {
    dims.push_back({out.dim(d), strides[d]});
    first += begin[d] * strides[d];
  }
  return Strided(c, std::move(dims), first);
}

absl::StatusOr<KernelPlan> CreateStridedSlice(const KernelContext& c) {
  const Shape& whole = c.input_shape(0);
  MF_ASSIGN_OR_RETURN(const StridedSliceSpec spec, ReadStridedSlice(c, whole));
  const std::vector<int64_t> strides = whole.Strides();
  std::vector<IndexDim> dims;
  int64_t first = 0;
  for (int d = 0; d < whole.rank(); ++d) {
    dims.push_back({spec.dims[d].size, spec.dims[d].stride * strides[d]});
    first += spec.dims[d].begin * strides[d];
  }
  return Strided(c, std::move(dims), first);
}

absl::StatusOr<KernelPlan> CreateStridedSliceGrad(const KernelContext& c) {
  const Shape& whole = c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const StridedSliceSpec spec, ReadStridedSlice(c, whole));
  std::vector<WindowDim> dims;
  for (int d = 0; d < whole.rank(); ++d) {
    const StridedSliceSpec::Dim& dim = spec.dims[d];
    dims.push_back(
        {.size = whole.dim(d), .count = dim.size, .first = dim.begin, .step = dim.stride});
  }
  return MoveKernel(c, WindowText("i", dims, "a4", ZeroText(c.output_dtype(0))));
}

absl::StatusOr<KernelPlan> CreatePad(const KernelContext& c) {
  const Shape &in = c.input_shape(0), &out = c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> paddings, c.integers(1));
  std::vector<WindowDim> dims;
  for (int d = 0; d < out.rank(); ++d) {
    dims.push_back({.size = out.dim(d), .count = in.dim(d), .first = paddings[2 * d]});
  }
  const bool by_value = c.node().num_inputs() == 3;  // PadV2
  return MoveKernel(c,
                    WindowText("i", dims, "a0", by_value ? "a2[0]" : ZeroText(c.output_dtype(0))));
}

absl::StatusOr<KernelPlan> CreateReverse(const KernelContext& c) {
  const Shape& shape = c.output_shape(0);
  MF_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, c.integers(1));
  const std::vector<int64_t> strides = shape.Strides();
  std::vector<IndexDim> dims;
  for (int d = 0; d < shape.rank(); ++d) dims.push_back({shape.dim(d), strides[d]});
  int64_t last = 0;
  for (const int64_t given : axes) {
    MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(given, shape.rank()));
    dims[axis].stride = -strides[axis];
    last += (shape.dim(axis) - 1) * strides[axis];
  }
  return Strided(c, std::move(dims), last);
}

// Tile and BroadcastTo. The shapes determine the number of repetitions.
absl::StatusOr<KernelPlan> CreateRepeat(const KernelContext& c) {
  const Shape &in = c.input_shape(0), &out = c.output_shape(0);
  const std::vector<int64_t> strides = in.Strides();
  const int offset = out.rank() - in.rank();
  std::vector<IndexDim> dims;
  for (int d = 0; d < out.rank(); ++d) {
    const int64_t block = d < offset ? 1 : in.dim(d - offset);
    dims.push_back({block == 0 ? 0 : out.dim(d) / block, 0});
    if (d >= offset) dims.push_back({block, strides[d - offset]});
  }
  return Strided(c, std::move(dims));
}

}  // namespace

void RegisterSliceCuda(KernelRegistry& kernels) {
  kernels.Register("BroadcastTo", kGpu, CreateRepeat);
  kernels.Register("Pad", kGpu, CreatePad);
  kernels.Register("PadV2", kGpu, CreatePad);
  kernels.Register("ReverseV2", kGpu, CreateReverse);
  kernels.Register("Slice", kGpu, CreateSlice);
  kernels.Register("StridedSlice", kGpu, CreateStridedSlice);
  kernels.Register("StridedSliceGrad", kGpu, CreateStridedSliceGrad);
  kernels.Register("Tile", kGpu, CreateRepeat);
}

}  // namespace mirrorflow
