// SPDX-License-Identifier: Apache-2.0
//
// MF_INDEPENDENT_ITERATIONS before a loop: its iterations touch distinct elements, so it may be
// vectorised without comparing pointers, also where it works in place.
#ifndef MIRRORFLOW_KERNELS_CPU_VECTORIZE_H_
#define MIRRORFLOW_KERNELS_CPU_VECTORIZE_H_

#if defined(__clang__)
#define MF_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define MF_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

#endif  // MIRRORFLOW_KERNELS_CPU_VECTORIZE_H_
