// SPDX-License-Identifier: Apache-2.0
//
// GatherV2, ResourceGather, GatherNd and OneHot: ops that select elements by index.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/moves.h"

namespace mirrorflow {
namespace {

// Makes a kernel that gathers elements of a value of shape `whole`. `depth` indices, starting at
// `first_index`, select a row along `depth` dimensions, starting with `axis`. `offset` is an
// expression for the element's offset in terms of that `row`. The kernel checks all `num_rows` *
// `depth` indices even if the output is empty.
absl::StatusOr<KernelPlan> GatherKernel(const KernelContext& c, const Shape& whole, int axis,
                                        int depth, int64_t num_rows, absl::string_view first_index,
                                        absl::string_view offset) {
  MF_RETURN_IF_ERROR(CheckMovable(c.output_dtype(0)));
  const std::string sizes = absl::StrJoin(whole.dims().subspan(axis, depth), ", ");
  const std::string row_at = absl::StrCat("RowAt<", sizes, ">(a1 + ");
  CudaKernelOptions options{
      .includes = {"move.cuh"},
      .error = absl::StrCat("index out of range; expected indices of at least 0 and below [", sizes,
                            "], got")};
  if (c.output_shape(0).num_elements() > 0) {
    return MoveKernel(c,
                      absl::StrCat("ElementOf(", row_at, first_index,
                                   ", fail), [&](int64 row) { return a0[", offset, "]; })"),
                      std::move(options));
  }
  return MakeCudaKernel(c,
                        {{.body = absl::StrCat("  ForEach<", num_rows, ">([&](auto i) { ", row_at,
                                               "i * ", depth, ", fail); });"),
                          .grid = ElementwiseGrid(num_rows)}},
                        std::move(options));
}

absl::StatusOr<KernelPlan> Gather(const KernelContext& c, int axis, int batch_dims) {
  const Shape &params = c.input_shape(0), &indices = c.input_shape(1);
  const int64_t batch = params.num_elements_before(batch_dims);
  const int64_t outer = params.num_elements_before(axis) / std::max<int64_t>(batch, 1);
  const int64_t count = indices.num_elements_from(batch_dims);
  const int64_t size = params.num_elements_from(axis + 1), all = params.num_elements_from(axis);
  const std::string index = OffsetText("i", {{batch, count}, {outer, 0}, {count, 1}, {size, 0}});
  const std::string offset = OffsetText("i", {{batch * outer, all}, {count, 0}, {size, 1}});
  return GatherKernel(c, params, axis, 1, indices.num_elements(), index,
                      absl::StrCat("row * ", size, " + ", offset));
}

absl::StatusOr<KernelPlan> CreateGatherV2(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(2, c.input_shape(0).rank()));
  const int64_t given_batch = c.attr<int64_t>("batch_dims");
  return Gather(
      c, axis,
      static_cast<int>(given_batch < 0 ? given_batch + c.input_shape(1).rank() : given_batch));
}

// Creates the kernel of ResourceGather, for nodes that run outside a plan, where the handle has the
// variable's shape. In a plan, a variable read and a GatherV2 replace this op.
absl::StatusOr<KernelPlan> CreateResourceGather(const KernelContext& c) {
  if (c.input_shape(0).rank() == 0) {
    return absl::UnimplementedError("cannot gather from a variable of unknown shape");
  }
  const int batch = static_cast<int>(c.attr<int64_t>("batch_dims"));
  return Gather(c, batch, batch);
}

absl::StatusOr<KernelPlan> CreateGatherNd(const KernelContext& c) {
  const Shape &params = c.input_shape(0), &indices = c.input_shape(1);
  const int depth = static_cast<int>(indices.dim(indices.rank() - 1));
  const int64_t size = params.num_elements_from(depth);
  return GatherKernel(c, params, 0, depth, indices.num_elements_before(indices.rank() - 1),
                      absl::StrCat("i / ", size, " * ", depth),
                      absl::StrCat("row * ", size, " + i % ", size));
}

// Creates the kernel of OneHot. An index that is out of range selects nothing.
absl::StatusOr<KernelPlan> CreateOneHot(const KernelContext& c) {
  const Shape& out = c.output_shape(0);
  const int64_t given = c.attr<int64_t>("axis");
  const int axis = given == -1 ? out.rank() - 1 : static_cast<int>(given);
  const int64_t rows = out.num_elements_before(axis), depth = out.dim(axis),
                size = out.num_elements_from(axis + 1);
  return MoveKernel(
      c,
      absl::StrCat("static_cast<int64>(a0[", OffsetText("i", {{rows, size}, {depth, 0}, {size, 1}}),
                   "]) == static_cast<int64>", CoordinateTexts("i", {rows, depth, size})[1],
                   " ? a2[0] : a3[0]"));
}

}  // namespace

void RegisterGatherCuda(KernelRegistry& kernels) {
  kernels.Register("GatherNd", kGpu, CreateGatherNd);
  kernels.Register("GatherV2", kGpu, CreateGatherV2);
  kernels.Register("OneHot", kGpu, CreateOneHot);
  kernels.Register("ResourceGather", kGpu, CreateResourceGather);
}

}  // namespace mirrorflow
