// SPDX-License-Identifier: Apache-2.0
//
// Vectors of floats, as extensions of the compiler, for kernels whose loops it does not vectorise
// well by itself.
#ifndef MIRRORFLOW_KERNELS_CPU_FLOAT_VECTORS_H_
#define MIRRORFLOW_KERNELS_CPU_FLOAT_VECTORS_H_

#include "kernels/cpu/vectorize.h"

namespace mirrorflow {

template <int kFloats>
struct VectorOf {
  typedef float type __attribute__((vector_size(kFloats * sizeof(float))));
};

// A vector at any address.
template <int kFloats>
struct Unaligned {
  typename VectorOf<kFloats>::type vector;
} __attribute__((packed));

template <int kFloats>
MF_INLINE inline const Unaligned<kFloats>& VectorAt(const float* at) {
  return *reinterpret_cast<const Unaligned<kFloats>*>(at);
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_FLOAT_VECTORS_H_
