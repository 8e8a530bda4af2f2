// SPDX-License-Identifier: Apache-2.0
//
// GatherNd, ScatterNd and TensorScatterUpdate on the CPU.
#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "framework/core/status.h"
#include "kernels/cpu/shard_rows.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

// Computes the offsets of the slices that indices of shape [i…, K] select in a value.
template <typename Index>
class SliceOffsets {
 public:
  SliceOffsets(const Shape& indices, const Shape& whole)
      : depth_(static_cast<int>(indices.dim(indices.rank() - 1))),
        count_(indices.num_elements_before(indices.rank() - 1)),
        slice_size_(whole.num_elements_from(depth_)),
        sizes_(whole.dims().begin(), whole.dims().begin() + depth_) {
    strides_ = whole.Strides();
  }

  int64_t count() const { return count_; }
  int64_t slice_size() const { return slice_size_; }  // elements per slice

  // Sets `*offset` to the offset of slice i. Returns InvalidArgument if the slice's indices are out
  // of range; the message numbers slices from `first_row`.
  absl::Status Find(const Index* indices, int64_t i, int64_t first_row, int64_t* offset) const {
    const Index* at = indices + i * depth_;
    *offset = 0;
    for (int k = 0; k < depth_; ++k) {
      if (at[k] < 0 || at[k] >= sizes_[k]) {
        return absl::InvalidArgumentError(
            absl::StrCat("the indices of slice ", first_row + i,
                         " are out of range; expected "
                         "indices into a value of shape [",
                         absl::StrJoin(sizes_, ","), ",...], got [",
                         absl::StrJoin(absl::MakeConstSpan(at, depth_), ","), "]"));
      }
      *offset += at[k] * strides_[k];
    }
    return absl::OkStatus();
  }

 private:
  int depth_;
  int64_t count_;
  int64_t slice_size_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
};

template <typename Index>
KernelPlan GatherNdPlan(const KernelContext& c) {
  const SliceOffsets<Index> offsets(c.input_shape(1), c.input_shape(0));
  const FirstRow first_row(c, 0);
  // Slices per row of the first dimension, so that errors can name rows of the global batch.
  const int64_t per_row = c.input_shape(1).rank() > 1 && c.input_shape(1).dim(0) > 0
                              ? offsets.count() / c.input_shape(1).dim(0)
                              : 1;
  const int64_t bytes = offsets.slice_size() * static_cast<int64_t>(DataTypeSize(c.input_dtype(0)));
  const int64_t element = static_cast<int64_t>(DataTypeSize(c.input_dtype(0)));
  return {.kernel = MakeKernel([=](const KernelArgs& args, Lane&) -> absl::Status {
            const Index* indices = args.input<Index>(1);
            const std::byte* from = args.input<std::byte>(0);
            std::byte* to = args.output<std::byte>(0);
            const int64_t first = first_row.of(args.params()) * per_row;
            for (int64_t i = 0; i < offsets.count(); ++i, to += bytes) {
              int64_t offset = 0;
              MF_RETURN_IF_ERROR(offsets.Find(indices, i, first, &offset));
              if (bytes > 0) std::memcpy(to, from + offset * element, bytes);
            }
            return absl::OkStatus();
          }),
          .fails_on_data = true};
}

absl::StatusOr<KernelPlan> CreateGatherNd(const KernelContext& c) {
  if (DataTypeSize(c.input_dtype(0)) == 0) return UnsupportedDataType(c.input_dtype(0));
  return c.input_dtype(1) == DT_INT64 ? GatherNdPlan<int64_t>(c) : GatherNdPlan<int32_t>(c);
}

template <typename T, typename Index>
KernelPlan ScatterNdPlan(const KernelContext& c) {
  const SliceOffsets<Index> offsets(c.input_shape(0), c.output_shape(0));
  const int64_t n = c.output_shape(0).num_elements();
  return {.kernel = MakeKernel([=](const KernelArgs& args, Lane&) -> absl::Status {
            const Index* indices = args.input<Index>(0);
            const T* from = args.input<T>(1);
            T* out = args.output<T>(0);
            std::fill_n(out, n, T{0});
            for (int64_t i = 0; i < offsets.count(); ++i, from += offsets.slice_size()) {
              int64_t offset = 0;
              MF_RETURN_IF_ERROR(offsets.Find(indices, i, 0, &offset));
              T* __restrict to = out + offset;
              for (int64_t k = 0; k < offsets.slice_size(); ++k) {
                to[k] = static_cast<T>(Wrapping(to[k]) + Wrapping(from[k]));
              }
            }
            return absl::OkStatus();
          }),
          .fails_on_data = true};
}

absl::StatusOr<KernelPlan> CreateScatterNd(const KernelContext& c) {
  return ForType(NumericTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    return c.input_dtype(0) == DT_INT64 ? ScatterNdPlan<T, int64_t>(c)
                                        : ScatterNdPlan<T, int32_t>(c);
  });
}

template <typename Index>
KernelPlan TensorScatterUpdatePlan(const KernelContext& c) {
  const SliceOffsets<Index> offsets(c.input_shape(1), c.input_shape(0));
  const int64_t element = static_cast<int64_t>(DataTypeSize(c.input_dtype(0)));
  const int64_t bytes = offsets.slice_size() * element;
  const int64_t all_bytes = c.input_shape(0).num_elements() * element;
  return {.kernel = MakeKernel([=](const KernelArgs& args, Lane&) -> absl::Status {
            const Index* indices = args.input<Index>(1);
            const std::byte* from = args.input<std::byte>(2);
            std::byte* to = args.output<std::byte>(0);
            const std::byte* tensor = args.input<std::byte>(0);
            if (to != tensor && all_bytes > 0) std::memcpy(to, tensor, all_bytes);
            for (int64_t i = 0; i < offsets.count(); ++i, from += bytes) {
              int64_t offset = 0;
              MF_RETURN_IF_ERROR(offsets.Find(indices, i, 0, &offset));
              if (bytes > 0) std::memcpy(to + offset * element, from, bytes);
            }
            return absl::OkStatus();
          }),
          .in_place = {{0, 0}},
          .fails_on_data = true};
}

absl::StatusOr<KernelPlan> CreateTensorScatterUpdate(const KernelContext& c) {
  if (DataTypeSize(c.input_dtype(0)) == 0) return UnsupportedDataType(c.input_dtype(0));
  return c.input_dtype(1) == DT_INT64 ? TensorScatterUpdatePlan<int64_t>(c)
                                      : TensorScatterUpdatePlan<int32_t>(c);
}

}  // namespace

void RegisterGatherNdCpu(KernelRegistry& kernels) {
  kernels.Register("GatherNd", "CPU", CreateGatherNd);
  kernels.Register("ScatterNd", "CPU", CreateScatterNd);
  kernels.Register("TensorScatterUpdate", "CPU", CreateTensorScatterUpdate);
}

}  // namespace mirrorflow
