// SPDX-License-Identifier: Apache-2.0
//
// Cumsum and Cumprod on the CPU. The dimensions after the axis form a row, and each result row is
// computed from the previous one.
#include <algorithm>

#include "framework/core/status.h"
#include "kernels/cpu/reducer.h"
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

// Scans one [rows, width] slice of the input. `step` is `width`, or `-width` to scan from the last
// row to the first.
template <typename Op, typename T>
void Scan(const T* x, T* y, int64_t rows, int64_t width, int64_t step, bool exclusive) {
  if (exclusive) {
    std::fill_n(y, width, Op::Identity());
  } else {
    std::copy_n(x, width, y);
  }
  for (int64_t r = 1; r < rows; ++r) {
    const T* last = y;
    y += step;
    const T* next = exclusive ? x : x + step;
    x += step;
    MF_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < width; ++i) y[i] = Op::Combine(last[i], next[i]);
  }
}

template <template <typename> typename Op, typename T>
KernelPlan CumulativePlan(int64_t outer, int64_t rows, int64_t width, bool exclusive,
                          bool reverse) {
  return {.kernel = MakeKernel([=](const KernelArgs& args) {
            if (rows == 0 || width == 0) return;
            const int64_t begin = reverse ? (rows - 1) * width : 0;
            for (int64_t o = 0; o < outer; ++o) {
              const int64_t at = o * rows * width + begin;
              Scan<Op<T>>(args.input<T>(0) + at, args.output<T>(0) + at, rows, width,
                          reverse ? -width : width, exclusive);
            }
          })};
}

template <template <typename> typename Op>
absl::StatusOr<KernelPlan> CreateCumulative(const KernelContext& c) {
  const Shape& in = c.input_shape(0);
  MF_ASSIGN_OR_RETURN(const int axis, c.axis(1, in.rank()));
  const int64_t outer = in.num_elements_before(axis), width = in.num_elements_from(axis + 1);
  const bool exclusive = c.node().attr<bool>("exclusive"), reverse = c.node().attr<bool>("reverse");
  return ForType(NumericTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    return CumulativePlan<Op, T>(outer, in.dim(axis), width, exclusive, reverse);
  });
}

}  // namespace

void RegisterCumulativeCpu(KernelRegistry& kernels) {
  kernels.Register("Cumprod", "CPU", CreateCumulative<ProdOf>);
  kernels.Register("Cumsum", "CPU", CreateCumulative<SumOf>);
}

}  // namespace mirrorflow
