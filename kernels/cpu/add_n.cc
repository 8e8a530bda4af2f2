// SPDX-License-Identifier: Apache-2.0
//
// AddN on the CPU, block by block, so that partial sums stay in the L1 cache.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

constexpr int64_t kBlock = 2048;

template <typename T>
void AddInto(const T* x, const T* y, T* sum, int64_t n) {
  MF_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<T>(Wrapping(x[i]) + Wrapping(y[i]));
}

absl::StatusOr<KernelPlan> CreateAddN(const KernelContext& c) {
  const int64_t n = c.output_shape(0).num_elements();
  const int num_inputs = c.node().num_inputs();
  return ForType(NumericTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    KernelPlan plan;
    plan.kernel = MakeKernel([n, num_inputs](const KernelArgs& args) {
      T* sum = args.output<T>(0);
      if (num_inputs == 1 && n > 0) std::memmove(sum, args.input<T>(0), n * sizeof(T));
      for (int64_t i = 0; num_inputs > 1 && i < n; i += kBlock) {
        const int64_t count = std::min(kBlock, n - i);
        AddInto(args.input<T>(0) + i, args.input<T>(1) + i, sum + i, count);
        for (int k = 2; k < num_inputs; ++k) AddInto(sum + i, args.input<T>(k) + i, sum + i, count);
      }
    });
    // The output can reuse the first input's memory only if the same value is not also a later
    // operand, because later operands are read after the first sum is written.
    const absl::Span<const Output> inputs = c.node().inputs();
    if (std::count(inputs.begin(), inputs.end(), inputs[0]) == 1) plan.in_place = {{0, 0}};
    return plan;
  });
}

}  // namespace

void RegisterAddNCpu(KernelRegistry& kernels) {
  kernels.Register("AccumulateNV2", "CPU", CreateAddN);
  kernels.Register("AddN", "CPU", CreateAddN);
}

}  // namespace mirrorflow
