// SPDX-License-Identifier: Apache-2.0
//
// Helpers for loops that compilers vectorise.
//
//   MF_INDEPENDENT_ITERATIONS before a loop promises that its iterations touch distinct elements.
//   The compiler then omits run-time checks for overlapping pointers, even if the loop works in
//   place.
//
//   WithWidestVectors([&]() MF_INLINE { …a loop… }) compiles the loop twice, for the baseline and
//   for AVX-512, and runs the version that suits the processor. It pays off only for compute-bound
//   loops. Only this function's copy of the loop uses AVX-512. Functions that are not inlined into
//   it have only a baseline version, so the linker cannot mix up copies. Element-wise loops give
//   the same bits either way.
#ifndef MIRRORFLOW_KERNELS_CPU_VECTORIZE_H_
#define MIRRORFLOW_KERNELS_CPU_VECTORIZE_H_

#include <atomic>

#if defined(__clang__)
#define MF_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#define MF_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define MF_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#define MF_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif

#define MF_INLINE __attribute__((always_inline))

namespace mirrorflow {

namespace internal {
inline std::atomic<bool> forbid_avx512{false};  // set by LimitInstructionSet
}  // namespace internal

inline bool ProcessorHasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
}
// Returns whether kernels use AVX-512.
inline bool HasAvx512() {
  return ProcessorHasAvx512() && !internal::forbid_avx512.load(std::memory_order_relaxed);
}

namespace internal {
template <typename Loop>
MF_AVX512 void WithAvx512(const Loop& loop) {
  loop();
}
}  // namespace internal

template <typename Loop>
void WithWidestVectors(const Loop& loop) {
  if (HasAvx512()) {
    internal::WithAvx512(loop);
  } else {
    loop();
  }
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_VECTORIZE_H_
