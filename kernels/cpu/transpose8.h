// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_KERNELS_CPU_TRANSPOSE8_H_
#define MIRRORFLOW_KERNELS_CPU_TRANSPOSE8_H_

#include <cstdint>

#include "kernels/cpu/float_vectors.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow {

// Transposes 8 by 8 elements: to[i * to_step + j] = from[j * step + i].
MF_INLINE inline void Transpose8(const float* from, int64_t step, float* to, int64_t to_step) {
  using Vector = VectorOf<8>::type;
  const auto ab = [](Vector a, Vector b)
                      MF_INLINE { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13); };
  const auto cd = [](Vector a, Vector b) MF_INLINE {
    return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  };
  const auto low = [](Vector a, Vector b) MF_INLINE {
    return __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
  };
  const auto high = [](Vector a, Vector b) MF_INLINE {
    return __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  };
  Vector x[8], y[8];
  for (int j = 0; j < 8; ++j) {
    x[j] = reinterpret_cast<const Unaligned<8>*>(from + j * step)->vector;
  }
  for (int j = 0; j < 8; j += 2) {
    y[j] = ab(x[j], x[j + 1]);
    y[j + 1] = cd(x[j], x[j + 1]);
  }
  for (int j = 0; j < 8; j += 4) {
    x[j] = low(y[j], y[j + 2]);
    x[j + 1] = high(y[j], y[j + 2]);
    x[j + 2] = low(y[j + 1], y[j + 3]);
    x[j + 3] = high(y[j + 1], y[j + 3]);
  }
  for (int j = 0; j < 4; ++j) {
    auto* const first = reinterpret_cast<Unaligned<8>*>(to + j * to_step);
    auto* const second = reinterpret_cast<Unaligned<8>*>(to + (j + 4) * to_step);
    first->vector = __builtin_shufflevector(x[j], x[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    second->vector = __builtin_shufflevector(x[j], x[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_TRANSPOSE8_H_
