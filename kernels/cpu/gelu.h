// SPDX-License-Identifier: Apache-2.0
//
// The formulas of Gelu and its derivative. Both forms multiply x by a distribution function,
// computed from one exponential of a non-positive number, so nothing overflows and the tail keeps
// its precision.
#ifndef MIRRORFLOW_KERNELS_CPU_GELU_H_
#define MIRRORFLOW_KERNELS_CPU_GELU_H_

#include <cmath>

#include "kernels/cpu/exponential.h"
#include "kernels/cpu/vectorize.h"

namespace mirrorflow::gelu {

template <typename T>
struct AtPoint {
  T cdf;      // the factor that multiplies x
  T density;  // its derivative
};

// Returns the probability that a standard normal variable exceeds |x|.
MF_INLINE inline float UpperTail(float x) {
  constexpr float kRootOfHalf = 0.70710678f;
  const float half = 0.5f * x, square = half * x;
  return 0.5f * ErfcOfNonNegative(std::abs(x) * kRootOfHalf, square, std::fma(half, x, -square));
}
inline double UpperTail(double x) {
  const double z = std::abs(x) * std::sqrt(0.5);
  // How much rounding changes the square of z. Without this correction, the error would grow with
  // the square.
  const double half = 0.5 * x, square = half * x, of_z = z * z;
  const double rest = (square - of_z) + (std::fma(half, x, -square) - std::fma(z, z, -of_z));
  const double tail = 0.5 * std::erfc(z);
  return tail > 0 ? tail - tail * rest : tail;  // `rest` can be NaN if `tail` is 0
}

struct Normal {
  template <typename T>
  MF_INLINE static T Cdf(T x) {
    const T tail = UpperTail(x);
    return x < 0 ? tail : T(1) - tail;
  }
  template <typename T>
  MF_INLINE static AtPoint<T> At(T x) {
    constexpr T kDensityAtZero = T(0.39894228040143267794);
    return {Cdf(x), kDensityAtZero * ExpOfNonPositive(T(-0.5) * x * x)};
  }
};

// Computes the tanh approximation, using (1 + tanh(w / 2)) / 2 = 1 / (1 + e^-w).
struct Approximate {
  template <typename T>
  MF_INLINE static T Cdf(T x) {
    return Logistic(Exponent(x));
  }
  template <typename T>
  MF_INLINE static AtPoint<T> At(T x) {
    const T w = Exponent(x), e = ExpOfNonPositive(-std::abs(w)), d = T(1) / (T(1) + e);
    const T slope = T(kTwoRoots) + T(3 * kTwoRoots * kCubic) * x * x;
    return {(w < 0 ? e : T(1)) * d, e * d * d * slope};
  }

 private:
  static constexpr double kTwoRoots = 1.59576912160573071176;  // 2 * sqrt(2 / pi)
  static constexpr double kCubic = 0.044715;
  template <typename T>
  MF_INLINE static T Exponent(T x) {
    return x * (T(kTwoRoots) + T(kTwoRoots * kCubic) * x * x);
  }
};

}  // namespace mirrorflow::gelu

#endif  // MIRRORFLOW_KERNELS_CPU_GELU_H_
