// SPDX-License-Identifier: Apache-2.0
//
// OneHot on the CPU: fills the output with off_value, then writes on_value at the indices.
#include <algorithm>
#include <cstdint>

#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/type_list.h"

namespace mirrorflow {
namespace {

template <typename T, typename Index>
KernelPlan OneHotPlan(int64_t rows, int64_t depth, int64_t row) {
  return {.kernel = MakeKernel([=](const KernelArgs& args) {
            const Index* index = args.input<Index>(0);
            const T on = *args.input<T>(2), off = *args.input<T>(3);
            T* out = args.output<T>(0);
            std::fill_n(out, rows * depth * row, off);
            for (int64_t r = 0; r < rows; ++r, index += row, out += depth * row) {
              for (int64_t i = 0; i < row; ++i) {
                const int64_t k = static_cast<int64_t>(index[i]);
                if (k >= 0 && k < depth) out[k * row + i] = on;
              }
            }
          })};
}

absl::StatusOr<KernelPlan> CreateOneHot(const KernelContext& c) {
  const Shape& out = c.output_shape(0);
  const int64_t given = c.attr<int64_t>("axis");
  const int axis = given == -1 ? out.rank() - 1 : static_cast<int>(given);
  const int64_t rows = out.num_elements_before(axis), row = out.num_elements_from(axis + 1),
                depth = out.dim(axis);
  using IndexTypes = TypeList<uint8_t, int32_t, int64_t>;
  return ForType(IndexTypes(), c.input_dtype(0),
                 [&]<typename Index>(TypeTag<Index>) -> absl::StatusOr<KernelPlan> {
                   return ForElementSize(c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
                     return OneHotPlan<T, Index>(rows, depth, row);
                   });
                 });
}

}  // namespace

void RegisterOneHotCpu(KernelRegistry& kernels) { kernels.Register("OneHot", "CPU", CreateOneHot); }

}  // namespace mirrorflow
