// SPDX-License-Identifier: Apache-2.0
//
// The exponential and functions that are computed from it, without branches and always inlined, so
// that loops over them vectorise.
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
