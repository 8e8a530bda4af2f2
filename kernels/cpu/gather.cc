// SPDX-License-Identifier: Apache-2.0
//
// GatherV2, ResourceGather and UnsortedSegmentSum on the CPU: rows copied or added by index.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "kernels/cpu/shard_rows.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

// Returns the error for the first of `values` that is out of range, for example
// `indices[1,0] must be in [0, 3), got 7`. Local row 0 is row `first_row` of the global batch.
template <typename Index>
absl::Status OutOfRange(absl::string_view name, const Shape& shape, const Index* values,
                        int64_t limit, bool negative_ok, int64_t first_row = 0) {
  int64_t i = 0;
  while (values[i] < limit && (values[i] >= 0 || negative_ok)) ++i;
  const std::vector<int64_t> strides = shape.Strides();
  std::string position;
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t at = i / strides[d] % shape.dim(d);
    absl::StrAppend(&position, d == 0 ? "[" : ",", d == 0 ? first_row + at : at);
  }
  if (!position.empty()) position += "]";
  return absl::InvalidArgumentError(absl::StrCat(name, position, " must be ",
                                                 negative_ok ? "below " : "in [0, ", limit,
                                                 negative_ok ? "" : ")", ", got ", values[i]));
}

// --- GatherV2 --------------------------------------------------------------------------------

template <typename Index>
struct GatherKernel {
  int64_t batch;  // independent gathers, one after the other
  int64_t outer;  // slices of params per gather, from the dimensions before the axis
  int64_t limit;  // elements along the axis
  int64_t count;  // indices per gather
  size_t bytes;   // size of the slice that one index selects
  Shape indices_shape;
  FirstRow first_row;  // first row of the indices

  absl::Status operator()(const KernelArgs& args, Lane&) const {
    const Index* indices = args.input<Index>(1);
    Index low = 0, high = -1;
    for (int64_t i = 0; i < batch * count; ++i) {
      low = std::min(low, indices[i]);
      high = std::max(high, indices[i]);
    }
    if (low < 0 || high >= limit) {
      return OutOfRange("indices", indices_shape, indices, limit, /*negative_ok=*/false,
                        first_row.of(args.params()));
    }
    // Rows of 4 or 8 bytes use a loop with a constant row size, which the compiler can optimise.
    const std::byte* from = args.input<std::byte>(0);
    std::byte* to = args.output<std::byte>(0);
    if (bytes == 4) return Rows<4>(indices, from, to);
    if (bytes == 8) return Rows<8>(indices, from, to);
    return Rows<0>(indices, from, to);
  }

  // kBytes is the row size if it is known at compile time, else 0.
  template <size_t kBytes>
  absl::Status Rows(const Index* indices, const std::byte* from, std::byte* to) const {
    const size_t n = kBytes == 0 ? bytes : kBytes;
    if (n == 0) return absl::OkStatus();
    for (int64_t b = 0; b < batch; ++b, indices += count) {
      for (int64_t o = 0; o < outer; ++o, from += limit * n) {
        for (int64_t i = 0; i < count; ++i, to += n) std::memcpy(to, from + indices[i] * n, n);
      }
    }
    return absl::OkStatus();
  }
};

template <typename Index>
KernelPlan GatherPlan(const KernelContext& c, int axis, int batch_dims) {
  const Shape &params = c.input_shape(0), &indices = c.input_shape(1);
  return {.kernel = MakeKernel(GatherKernel<Index>{
              .batch = params.num_elements_before(batch_dims),
              .outer = Shape(params.dims().subspan(batch_dims, axis - batch_dims)).num_elements(),
              .limit = params.dim(axis),
              .count = indices.num_elements_from(batch_dims),
              .bytes = params.num_elements_from(axis + 1) * DataTypeSize(c.output_dtype(0)),
              .indices_shape = indices,
              .first_row = FirstRow(c, batch_dims > 0 ? 0 : axis)}),
          .fails_on_data = true};
}

absl::StatusOr<KernelPlan> CreateGatherV2(const KernelContext& c) {
  if (DataTypeSize(c.input_dtype(0)) == 0) return UnsupportedDataType(c.input_dtype(0));
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(2, c.input_shape(0).rank()));
  const int64_t given_batch = c.attr<int64_t>("batch_dims");
  const int batch =
      static_cast<int>(given_batch < 0 ? given_batch + c.input_shape(1).rank() : given_batch);
  return c.input_dtype(1) == DT_INT64 ? GatherPlan<int64_t>(c, axis, batch)
                                      : GatherPlan<int32_t>(c, axis, batch);
}

// Creates the kernel of ResourceGather, for EvaluateNode only, where the handle has the variable's
// shape. In a plan, a variable read and a GatherV2 replace this op.
absl::StatusOr<KernelPlan> CreateResourceGather(const KernelContext& c) {
  if (c.input_shape(0).rank() == 0) {
    return absl::UnimplementedError("cannot gather from a variable of unknown shape");
  }
  const int batch = static_cast<int>(c.attr<int64_t>("batch_dims"));
  return c.input_dtype(1) == DT_INT64 ? GatherPlan<int64_t>(c, batch, batch)
                                      : GatherPlan<int32_t>(c, batch, batch);
}

// --- UnsortedSegmentSum ----------------------------------------------------------------------

// Threads divide the columns, each of which is a sum of its own: every thread reads all ids.
template <typename T, typename Id>
KernelPlan SegmentSumPlan(const KernelContext& c) {
  const DimRange* const part = c.part();
  const Shape& ids_shape = c.input_shape(1);
  const Shape& out_shape = part != nullptr ? c.undivided().output_shape(0) : c.output_shape(0);
  const int64_t num_rows = ids_shape.num_elements(), num_segments = out_shape.dim(0);
  const int64_t row = out_shape.num_elements_from(1);
  const int64_t columns = part != nullptr ? c.output_shape(0).num_elements_from(1) : row;
  KernelPlan plan = {.kernel = MakeKernel([=](const KernelArgs& args, Lane&) -> absl::Status {
                       const Id* ids = args.input<Id>(1);
                       const T* data = args.input<T>(0);
                       T* out = args.output<T>(0);
                       for (int64_t s = 0; s < num_segments; ++s)
                         std::fill_n(out + s * row, columns, T{0});
                       for (int64_t r = 0; r < num_rows; ++r) {
                         if (ids[r] < 0) continue;
                         if (ids[r] >= num_segments) {
                           return OutOfRange("segment_ids", ids_shape, ids, num_segments,
                                             /*negative_ok=*/true);
                         }
                         const T* __restrict from = data + r * row;
                         T* __restrict to = out + ids[r] * row;
                         for (int64_t i = 0; i < columns; ++i) {
                           to[i] = static_cast<T>(Wrapping(to[i]) + Wrapping(from[i]));
                         }
                       }
                       return absl::OkStatus();
                     }),
                     .fails_on_data = true};
  if (out_shape.rank() < 2) return plan;
  const auto cache_line = static_cast<int64_t>(64 / sizeof(T));
  const int64_t per_index = std::max<int64_t>(out_shape.num_elements_from(2), 1);
  plan.divisible_dims = {
      {.dim = 1, .multiple = std::max<int64_t>(cache_line / per_index, 1), .divided_inputs = {0}}};
  if (part != nullptr) {
    plan.part_inputs = {{0, {ids_shape.rank(), part->first, part->count}}};
  }
  return plan;
}

absl::StatusOr<KernelPlan> CreateSegmentSum(const KernelContext& c) {
  return ForType(NumericTypes(), c.input_dtype(0), [&]<typename T>(TypeTag<T>) {
    return c.input_dtype(1) == DT_INT64 ? SegmentSumPlan<T, int64_t>(c)
                                        : SegmentSumPlan<T, int32_t>(c);
  });
}

}  // namespace

void RegisterGatherCpu(KernelRegistry& kernels) {
  kernels.Register("GatherV2", "CPU", CreateGatherV2);
  kernels.Register("ResourceGather", "CPU", CreateResourceGather);
  kernels.Register("UnsortedSegmentSum", "CPU", CreateSegmentSum);
}

}  // namespace mirrorflow
