// SPDX-License-Identifier: Apache-2.0
//
// Describes how a window moves over one dimension of images, as in ops/window.h.
#ifndef MIRRORFLOW_KERNELS_CUDA_CODE_WINDOW_CUH_
#define MIRRORFLOW_KERNELS_CUDA_CODE_WINDOW_CUH_

#include "base.cuh"

template <int64 kIn_, int64 kOut_, int64 kSize_, int64 kStride, int64 kBefore, int64 kDilation>
struct Window {
  static constexpr int64 kIn = kIn_, kOut = kOut_, kSize = kSize_;

  // Returns the input under tap `i` of the window at position `o`. Inputs outside [0, kIn) are
  // padding.
  __device__ static int64 Input(int64 o, int64 i) { return o * kStride - kBefore + i * kDilation; }
  // Returns the position where tap `i` is over input `at`, or -1 if there is no such position.
  __device__ static int64 Position(int64 at, int64 i) {
    const int64 start = at + kBefore - i * kDilation;
    return start >= 0 && start % kStride == 0 && start / kStride < kOut ? start / kStride : -1;
  }
};

#endif  // MIRRORFLOW_KERNELS_CUDA_CODE_WINDOW_CUH_
