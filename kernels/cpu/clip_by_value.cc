// SPDX-License-Identifier: Apache-2.0
//
// ClipByValue on the CPU. Each bound is a scalar or has the same shape as t.
#include "kernels/cpu/type_list.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {
namespace {

template <bool kLowMoves, bool kHighMoves, typename T>
void Clip(const T* t, const T* low, const T* high, T* out, int64_t n) {
  if (n == 0) return;
  const T low0 = *low, high0 = *high;
  MF_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < n; ++i) {
    const T l = kLowMoves ? low[i] : low0, h = kHighMoves ? high[i] : high0;
    const T x = h < t[i] ? h : t[i];  // NaN fails both comparisons
    out[i] = x < l ? l : x;
  }
}

absl::StatusOr<KernelPlan> CreateClipByValue(const KernelContext& c) {
  const int64_t n = c.output_shape(0).num_elements();
  const bool low_moves = c.input_shape(1).rank() > 0, high_moves = c.input_shape(2).rank() > 0;
  return ForType(NumericTypes(), c.output_dtype(0), [&]<typename T>(TypeTag<T>) {
    const auto clip = low_moves ? (high_moves ? Clip<true, true, T> : Clip<true, false, T>)
                                : (high_moves ? Clip<false, true, T> : Clip<false, false, T>);
    return KernelPlan{.kernel = MakeKernel([n, clip](const KernelArgs& args) {
                        clip(args.input<T>(0), args.input<T>(1), args.input<T>(2),
                             args.output<T>(0), n);
                      }),
                      .in_place = {{0, 0}}};
  });
}

}  // namespace

void RegisterClipByValueCpu(KernelRegistry& kernels) {
  kernels.Register("ClipByValue", "CPU", CreateClipByValue);
}

}  // namespace mirrorflow
