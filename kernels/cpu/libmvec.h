// SPDX-License-Identifier: Apache-2.0
//
// Wrappers for libmvec, glibc's vector math library (2.35 or newer): libmvec::sin(x) takes a vector
// of floats or doubles. Infinities, NaN and subnormal numbers are handled as in the scalar
// functions. docs/ops lists error bounds.
//
// glibc has no header for these functions, so this file declares them under the names of the x86
// vector function ABI: _ZGVdN8v_sinf takes 8 floats and _ZGVdN4v_sin 4 doubles, both with AVX2. The
// AVX-512 versions can differ in the last digits, and results must not depend on the processor.
#ifndef MIRRORFLOW_KERNELS_CPU_LIBMVEC_H_
#define MIRRORFLOW_KERNELS_CPU_LIBMVEC_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/vectorize.h"

namespace mirrorflow::libmvec {

using FloatVector = float __attribute__((vector_size(32)));
using DoubleVector = double __attribute__((vector_size(32)));

#define MF_LIBMVEC_FUNCTION(name)                                          \
  extern "C" FloatVector _ZGVdN8v_##name##f(FloatVector);                  \
  extern "C" DoubleVector _ZGVdN4v_##name(DoubleVector);                   \
  inline FloatVector name(FloatVector x) { return _ZGVdN8v_##name##f(x); } \
  inline DoubleVector name(DoubleVector x) { return _ZGVdN4v_##name(x); }

MF_LIBMVEC_FUNCTION(acos)
MF_LIBMVEC_FUNCTION(acosh)
MF_LIBMVEC_FUNCTION(asin)
MF_LIBMVEC_FUNCTION(asinh)
MF_LIBMVEC_FUNCTION(atan)
MF_LIBMVEC_FUNCTION(atanh)
MF_LIBMVEC_FUNCTION(cos)
MF_LIBMVEC_FUNCTION(cosh)
MF_LIBMVEC_FUNCTION(erf)
MF_LIBMVEC_FUNCTION(erfc)
MF_LIBMVEC_FUNCTION(exp)
MF_LIBMVEC_FUNCTION(expm1)
MF_LIBMVEC_FUNCTION(log)
MF_LIBMVEC_FUNCTION(log1p)
MF_LIBMVEC_FUNCTION(sin)
MF_LIBMVEC_FUNCTION(sinh)
MF_LIBMVEC_FUNCTION(tan)
MF_LIBMVEC_FUNCTION(tanh)
#undef MF_LIBMVEC_FUNCTION

// Computes y[i] = fn(x[i]) for `n` floats or doubles, one vector at a time. The last vector is
// padded. `y` may be `x`.
template <typename T, typename Fn>
MF_INLINE inline void ForEachVector(const T* x, T* y, int64_t n, Fn fn) {
  using Vector = std::conditional_t<std::is_same_v<T, float>, FloatVector, DoubleVector>;
  constexpr int64_t kSize = sizeof(Vector) / sizeof(T);
  const auto apply = [fn](const T* from, T* to) MF_INLINE {
    Vector vector;
    std::memcpy(&vector, from, sizeof(Vector));
    vector = fn(vector);
    std::memcpy(to, &vector, sizeof(Vector));
  };
  int64_t i = 0;
  for (; i + kSize <= n; i += kSize) apply(x + i, y + i);
  if (i == n) return;
  // The padding is copies of one element, so that a single element, which is common in small steps,
  // goes straight from memory into a register.
  T tail[kSize];
  std::fill_n(tail, kSize, x[i]);
  if (i + 1 < n) std::copy(x + i, x + n, tail);
  apply(tail, tail);
  y[i] = tail[0];
  if (i + 1 < n) std::copy(tail + 1, tail + (n - i), y + i + 1);
}

}  // namespace mirrorflow::libmvec

#endif  // MIRRORFLOW_KERNELS_CPU_LIBMVEC_H_
