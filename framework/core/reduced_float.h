// SPDX-License-Identifier: Apache-2.0
//
// Conversions of half (1 sign, 5 exponent, 10 mantissa bits) and bfloat16 (1, 8, 7), both held as
// 16 bits. No kernel computes in these formats: operands are widened to float, which is exact, and
// results are rounded once, to nearest, ties to even. Overflow gives infinity, underflow gives a
// denormal or 0, and NaN stays NaN.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_REDUCED_FLOAT_H_
#define MIRRORFLOW_FRAMEWORK_CORE_REDUCED_FLOAT_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "framework/core/dtype.h"

namespace mirrorflow {

inline bool IsReducedFloat(DataType dtype) { return dtype == DT_HALF || dtype == DT_BFLOAT16; }

// After F. Giesen's float_to_half_fast3_rtne and half_to_float_fast4 (public domain).
struct HalfFormat {
  static uint16_t FromFloat(float value) {
    constexpr uint32_t kInfinity = 255u << 23, kTooLarge = (127u + 16) << 23, kNormal = 113u << 23;
    // Adding this to a small number leaves the half's denormal mantissa, rounded, in the low bits.
    constexpr uint32_t kShift = ((127u - 15) + (23 - 10) + 1) << 23;
    const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits & 0x80000000u;
    const uint32_t magnitude = bits ^ sign;
    uint32_t half;
    if (magnitude >= kTooLarge) {
      half = magnitude > kInfinity ? 0x7e00 : 0x7c00;
    } else if (magnitude < kNormal) {
      const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kShift);
      half = std::bit_cast<uint32_t>(shifted) - kShift;
    } else {
      const uint32_t is_odd = (magnitude >> 13) & 1;
      half = (magnitude - (112u << 23) + 0xfff + is_odd) >> 13;
    }
    return static_cast<uint16_t>(half | sign >> 16);
  }

  static float ToFloat(uint16_t half) {
    constexpr uint32_t kExponent = 0x7c00u << 13;
    constexpr uint32_t kSmallest = 113u << 23;
    uint32_t bits = (half & 0x7fffu) << 13;
    const uint32_t exponent = bits & kExponent;
    bits += (127u - 15) << 23;
    if (exponent == kExponent) {
      bits += (128u - 16) << 23;
    } else if (exponent == 0) {
      bits += 1u << 23;
      bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) - std::bit_cast<float>(kSmallest));
    }
    return std::bit_cast<float>(bits | (half & 0x8000u) << 16);
  }
};

// The upper 16 bits of a float.
struct BFloat16Format {
  static uint16_t FromFloat(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return static_cast<uint16_t>(is_nan ? (bits >> 16) | 0x40 : rounded);
  }

  static float ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

// Returns a float that rounds to the same half or bfloat16 as `x`, which may be an integer or a
// value in double precision that no float represents. Rounds to odd: a value between two floats
// becomes the one whose last bit is set, which is never a tie (Boldo and Melquiond, IEEE ToC 57,
// 2008).
template <typename T>
float ToFloatForRounding(T x) {
  if constexpr (std::is_same_v<T, float> || sizeof(T) < 4) {
    return static_cast<float>(x);
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    // The low bits are worth less than half of the last significant bit; a sticky bit preserves
    // their effect on rounding.
    constexpr T kLow = 0xffff, kLarge = T{1} << 40;
    const bool large = x >= kLarge || (std::is_signed_v<T> && x < -kLarge);
    return ToFloatForRounding(
        static_cast<double>(large ? (x & ~kLow) | ((x & kLow) != 0 ? 0x8000 : 0) : x));
  } else {
    const double exact = static_cast<double>(x);
    const float near = static_cast<float>(exact);
    const uint32_t bits = std::bit_cast<uint32_t>(near);
    const uint32_t beyond = std::abs(static_cast<double>(near)) > std::abs(exact) ? 1 : 0;
    return static_cast<double>(near) == exact ? near : std::bit_cast<float>((bits - beyond) | 1);
  }
}

inline float ReducedToFloat(DataType dtype, uint16_t bits) {
  return dtype == DT_HALF ? HalfFormat::ToFloat(bits) : BFloat16Format::ToFloat(bits);
}
template <typename T>
uint16_t ReducedFrom(DataType dtype, T x) {
  const float rounded = ToFloatForRounding(x);
  return dtype == DT_HALF ? HalfFormat::FromFloat(rounded) : BFloat16Format::FromFloat(rounded);
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_REDUCED_FLOAT_H_
