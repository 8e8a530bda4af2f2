// SPDX-License-Identifier: Apache-2.0
//
// Concat, ConcatV2, ConcatOffset, Pack and Unpack on the CPU.
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/graph/shape_inference.h"
#include "kernels/cpu/strided_copy.h"

namespace mirrorflow {
namespace {

// Returns a kernel that concatenates inputs [first, first + n) along dimension `axis` of the
// output.
absl::StatusOr<KernelPlan> ConcatInputs(const KernelContext& c, int first, int n, int axis) {
  const Shape& out = c.output_shape(0);
  // Each of the `rows` rows of the output holds one part of every input.
  const int64_t rows = out.num_elements_before(axis);
  const bool supports_row_stride = axis == out.rank() - 1;
  const int64_t stride = supports_row_stride ? c.row_stride() : out.num_elements_from(axis);
  const int64_t element = static_cast<int64_t>(DataTypeSize(c.output_dtype(0)));
  std::vector<Move> moves;
  std::vector<InputSlice> slices;
  int64_t begin = 0;
  for (int i = first; i < first + n; ++i) {
    const Shape& in = c.input_shape(i);
    const int64_t part = rows > 0 ? in.num_elements() / rows : 0;
    moves.push_back({i, 0,
                     StridedCopy(c.output_dtype(0), {{rows, part, stride}, {part, 1, 1}},
                                 /*in_offset=*/0, /*out_offset=*/begin)});
    if (rows == 1) {
      slices.push_back({.input = i, .offset = begin * element});
    } else if (in.rank() > 0 && part == in.dim(in.rank() - 1)) {
      slices.push_back({.input = i, .offset = begin * element, .row_stride = stride * element});
    }
    begin += part;
  }
  MF_ASSIGN_OR_RETURN(KernelPlan plan, CopyKernel(c.output_dtype(0), std::move(moves)));
  plan.slices = std::move(slices);
  plan.supports_row_stride = supports_row_stride;
  return plan;
}

// Creates the kernel of Concat, whose first input is the axis, or of ConcatV2, whose last input is
// the axis.
template <bool kAxisFirst>
absl::StatusOr<KernelPlan> CreateConcat(const KernelContext& c) {
  const int n = c.node().num_inputs() - 1;
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(kAxisFirst ? 0 : n, c.output_shape(0).rank()));
  return ConcatInputs(c, kAxisFirst ? 1 : 0, n, axis);
}

absl::StatusOr<KernelPlan> CreatePack(const KernelContext& c) {
  MF_ASSIGN_OR_RETURN(const int axis,
                      NormalizeAxis(c.attr<int64_t>("axis"), c.output_shape(0).rank()));
  return ConcatInputs(c, 0, c.node().num_inputs(), axis);
}

absl::StatusOr<KernelPlan> CreateUnpack(const KernelContext& c) {
  const int n = c.node().num_outputs();
  const Shape& in = c.input_shape(0);
  MF_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attr<int64_t>("axis"), in.rank()));
  const int64_t rows = in.num_elements_before(axis), piece = in.num_elements_from(axis + 1);
  std::vector<Move> moves;
  for (int i = 0; i < n; ++i) {
    moves.push_back({0, i,
                     StridedCopy(c.input_dtype(0), {{rows, n * piece, piece}, {piece, 1, 1}},
                                 /*in_offset=*/i * piece)});
  }
  return CopyKernel(c.input_dtype(0), std::move(moves));
}

template <typename T>
KernelPlan OffsetKernel(int n, int rank, int axis) {
  return {
      .kernel = MakeKernel([=](const KernelArgs& args, Lane&) -> absl::Status {
        T begin = 0;
        for (int i = 0; i < n; ++i) {
          const T* shape = args.input<T>(1 + i);
          for (int d = 0; d < rank; ++d) {
            if (d != axis && shape[d] != args.input<T>(1)[d]) {
              return absl::InvalidArgumentError(absl::StrCat(
                  "shapes must be equal except in dimension ", axis, "; expected size ",
                  args.input<T>(1)[d], ", but shape ", i, " has ", shape[d], " in dimension ", d));
            }
            args.output<T>(i)[d] = d == axis ? begin : 0;
          }
          begin += shape[axis];
        }
        return absl::OkStatus();
      }),
      .fails_on_data = true};
}

absl::StatusOr<KernelPlan> CreateConcatOffset(const KernelContext& c) {
  const int n = c.node().num_outputs(), rank = static_cast<int>(c.output_shape(0).dim(0));
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(0, rank, "concat_dim"));
  return c.output_dtype(0) == DT_INT64 ? OffsetKernel<int64_t>(n, rank, axis)
                                       : OffsetKernel<int32_t>(n, rank, axis);
}

}  // namespace

void RegisterConcatCpu(KernelRegistry& kernels) {
  kernels.Register("Concat", "CPU", CreateConcat</*kAxisFirst=*/true>);
  kernels.Register("ConcatV2", "CPU", CreateConcat</*kAxisFirst=*/false>);
  kernels.Register("ConcatOffset", "CPU", CreateConcatOffset);
  kernels.Register("Pack", "CPU", CreatePack);
  kernels.Register("Unpack", "CPU", CreateUnpack);
}

}  // namespace mirrorflow
