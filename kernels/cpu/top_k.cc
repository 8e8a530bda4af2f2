// SPDX-License-Identifier: Apache-2.0
//
// TopKV2 on the CPU: partially sorts the indices of each row in scratch memory.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

template <typename T, typename Index>
KernelPlan TopKPlan(const KernelContext& c) {
  const Shape& in = c.input_shape(0);
  const int last = in.rank() - 1;
  const int64_t rows = in.num_elements_before(last), n = in.dim(last);
  const int64_t k = c.output_shape(0).dim(last);
  return {.kernel = MakeKernel([=](const KernelArgs& args) {
            const T* row = args.input<T>(0);
            T* values = args.output<T>(0);
            Index* indices = args.output<Index>(1);
            Index* order = args.scratch<Index>();
            for (int64_t r = 0; r < rows; ++r, row += n, values += k, indices += k) {
              std::iota(order, order + n, Index(0));
              std::partial_sort(order, order + k, order + n, [row](Index a, Index b) {
                const T x = row[a], y = row[b];
                if (x > y || y > x) return x > y;
                const bool x_is_number = x == x, y_is_number = y == y;
                return x_is_number != y_is_number ? x_is_number : a < b;
              });
              for (int64_t i = 0; i < k; ++i) {
                indices[i] = order[i];
                values[i] = row[order[i]];
              }
            }
          }),
          .scratch_bytes = n * static_cast<int64_t>(sizeof(Index))};
}

absl::StatusOr<KernelPlan> CreateTopK(const KernelContext& c) {
  return ForType(NumericTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    return c.output_dtype(1) == DT_INT64 ? TopKPlan<T, int64_t>(c) : TopKPlan<T, int32_t>(c);
  });
}

}  // namespace

void RegisterTopKCpu(KernelRegistry& kernels) { kernels.Register("TopKV2", "CPU", CreateTopK); }

}  // namespace mirrorflow
