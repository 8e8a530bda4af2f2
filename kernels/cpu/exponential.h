// SPDX-License-Identifier: Apache-2.0
//
// The exponential, functions that are computed from it, and the hyperbolic tangent, without
// branches and always inlined, so that loops over them vectorise.
#ifndef MIRRORFLOW_KERNELS_CPU_EXPONENTIAL_H_
#define MIRRORFLOW_KERNELS_CPU_EXPONENTIAL_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/vectorize.h"

namespace mirrorflow {

// Returns exp(x) for x <= 0, accurate to one unit in the last place. Below 2^-126.5 the result
// is 0, and NaN stays NaN.
MF_INLINE inline float ExpOfNonPositive(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kSmallest = -88.03f;   // -127 * ln(2), where 2^n below becomes 0
  const float y = std::max(x, kSmallest);
  const float shifted = y * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (y - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  // Taylor series; the first omitted term is below 6e-9.
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // 2^n: n is in the low bits of `shifted`.
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound);
  return p * std::bit_cast<float>((exponent + 127) << 23);
}
inline double ExpOfNonPositive(double x) { return std::exp(x); }

// Returns 1 / (1 + e^-x), accurate to three units in the last place. Below -87.7 the result is 0.
MF_INLINE inline float Logistic(float x) {
  const float e = ExpOfNonPositive(-std::abs(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}
inline double Logistic(double x) {
  const double e = std::exp(-std::abs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}

// Computes a quotient of two polynomials on [-8, 8], with the coefficients of Eigen 3.4, within
// five units in the last place. Beyond that range the result is 1 or -1 in float, and NaN stays
// NaN.
MF_INLINE inline float Tanh(float v) {
  constexpr float kLargest = 7.99881172180175781f, kLinear = 0.0004f;
  const float x = v > kLargest ? kLargest : v < -kLargest ? -kLargest : v;
  const float x2 = x * x;
  float p = x2 * -2.76076847742355e-16f + 2.00018790482477e-13f;
  p = x2 * p + -8.60467152213735e-11f;
  p = x2 * p + 5.12229709037114e-08f;
  p = x2 * p + 1.48572235717979e-05f;
  p = x2 * p + 6.37261928875436e-04f;
  p = x2 * p + 4.89352455891786e-03f;
  float q = x2 * 1.19825839466702e-06f + 1.18534705686654e-04f;
  q = x2 * q + 2.26843463243900e-03f;
  q = x2 * q + 4.89352518554385e-03f;
  return std::abs(v) < kLinear ? v : x * p / q;
}

// Returns erfc(z) for z >= 0, with a relative error of at most 4.1e-7. Above 9.37 the result is 0,
// and NaN stays NaN. The caller passes z² as the sum of `square` and `rest`, the error of rounding
// it: without `rest`, the result's error would grow with z².
MF_INLINE inline float ErfcOfNonNegative(float z, float square, float rest) {
  constexpr float kZero = 11;  // erfc(z) is below 2^-126 here
  const bool is_zero = z > kZero;
  const float t = 1.0f / (1.0f + 0.5f * z);
  // A minimax polynomial for erfc(z) * exp(z²) / t in (0, 1].
  float p = 0.0423521288f;
  p = p * t - 0.230855584f;
  p = p * t + 0.486174971f;
  p = p * t - 0.446973473f;
  p = p * t + 0.127087042f;
  p = p * t - 0.0572315902f;
  p = p * t + 0.0930003896f;
  p = p * t + 0.175376847f;
  p = p * t + 0.246880591f;
  p = p * t + 0.282093853f;
  p = p * t + 0.282094806f;
  const float y = t * p * ExpOfNonPositive(-square);
  return is_zero ? 0.0f : y - y * rest;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_EXPONENTIAL_H_
