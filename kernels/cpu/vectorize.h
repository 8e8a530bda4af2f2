// SPDX-License-Identifier: Apache-2.0
//
// Help for loops that compilers vectorise.
//
//   MF_INDEPENDENT_ITERATIONS before a loop: its iterations touch distinct elements, so pointers
//   need not be compared at run time, also where the loop works in place.
//
//   WithWidestVectors([&]() MF_INLINE { …a loop… }): the loop is compiled twice, for the baseline
//   and for AVX-512, and the processor decides. For loops bound by arithmetic: others gain nothing.
//   Only this function's copy of the loop is AVX-512; inline functions that are not inlined into it
//   stay as they are everywhere, so the linker has no copies to mix up. Element-wise loops give the
//   same bits either way.
#ifndef MIRRORFLOW_KERNELS_CPU_VECTORIZE_H_
#define MIRRORFLOW_KERNELS_CPU_VECTORIZE_H_

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

inline bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
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
