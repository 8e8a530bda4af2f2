// SPDX-License-Identifier: Apache-2.0
//
// Parses decimal numbers at the start of a text. Common numbers take only a few multiplications;
// the caller parses all others with std::from_chars. Both results are correctly rounded. With only
// GCC 12's std::from_chars, parsing a CSV file of floats takes 1.25 times as long.
#ifndef MIRRORFLOW_TRAIN_FORMATS_DECIMAL_H_
#define MIRRORFLOW_TRAIN_FORMATS_DECIMAL_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace mirrorflow {

// The number (negative ? -1 : 1) * digits * 10^exponent.
struct Decimal {
  uint64_t digits = 0;
  int exponent = 0;
  bool negative = false;
};

// The functions below stop at the first byte that cannot be part of the number. Such a byte must
// follow the text, and kDecimalPadding bytes after the text must be readable. The functions return
// the end of the number, or null if the text is not a number that they can parse.
inline constexpr size_t kDecimalPadding = 8;

// If eight digits follow, appends them to `digits` and returns true. Works on all bytes of a word
// at once. Source: Lemire, "Number parsing at a gigabyte per second", 2021.
inline bool TakeEightDigits(const char* p, uint64_t* digits) {
  if constexpr (std::endian::native != std::endian::little) return false;
  constexpr uint64_t kOnes = 0x0101010101010101, kHighs = 0xf0 * kOnes;
  uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  // The digits are the bytes 0x30 to 0x39: their upper four bits are 3, even after adding 6.
  if (((word & kHighs) | ((word + 6 * kOnes) & kHighs) >> 4) != 0x33 * kOnes) return false;
  word -= 0x30 * kOnes;
  word = word * 10 + (word >> 8);  // each second byte now holds a two-digit number
  constexpr uint64_t kPair = 0x000000ff000000ff;
  word = ((word & kPair) * (1'000'000 * (uint64_t{1} << 32) + 100) +
          ((word >> 16) & kPair) * (10'000 * (uint64_t{1} << 32) + 1)) >>
         32;
  *digits = *digits * 100'000'000 + static_cast<uint32_t>(word);
  return true;
}

// Parses [+-]digits.
template <typename T>
inline const char* ParseInteger(const char* p, T* out) {
  static_assert(std::numeric_limits<T>::is_signed);
  const bool negative = *p == '-';
  p += negative || *p == '+';
  const char* const begin = p;
  uint64_t value = 0;
  for (unsigned digit; (digit = static_cast<unsigned char>(*p) - '0') <= 9; ++p) {
    value = 10 * value + digit;
  }
  // 19 digits do not overflow. More digits are accepted if the additional digits are leading zeros.
  if (p == begin || p - begin > 19) {
    const char* first = begin;
    while (first < p && *first == '0') ++first;
    if (p == begin || p - first > 19) return nullptr;
  }
  const uint64_t limit = static_cast<uint64_t>(std::numeric_limits<T>::max()) + negative;
  if (value > limit) return nullptr;
  *out = static_cast<T>(negative ? 0 - value : value);
  return p;
}

// Parses [+-]digits[.digits][e[+-]digits] with at most 19 digits, including leading zeros.
inline const char* ScanDecimal(const char* p, Decimal* out) {
  out->negative = *p == '-';
  p += out->negative || *p == '+';
  uint64_t digits = 0;
  auto take_digits = [&] {
    const char* const begin = p;
    for (unsigned digit; (digit = static_cast<unsigned char>(*p) - '0') <= 9; ++p) {
      digits = 10 * digits + digit;
    }
    return p - begin;
  };
  auto count = take_digits();
  out->exponent = 0;
  if (*p == '.') {
    ++p;
    const char* const begin = p;
    while (TakeEightDigits(p, &digits)) p += 8;
    take_digits();
    const auto after_point = p - begin;
    count += after_point;
    out->exponent = -static_cast<int>(after_point);
  }
  if (count == 0 || count > 19) return nullptr;
  if (*p == 'e' || *p == 'E') {
    ++p;
    const bool negative = *p == '-';
    p += negative || *p == '+';
    const char* const begin = p;
    int exponent = 0;
    for (unsigned digit; (digit = static_cast<unsigned char>(*p) - '0') <= 9; ++p) {
      // Ignore further digits, because larger exponents are out of range in any case. Leading zeros
      // leave the exponent at 0.
      if (exponent < 10'000) exponent = 10 * exponent + static_cast<int>(digit);
    }
    if (p == begin) return nullptr;
    out->exponent += negative ? -exponent : exponent;
  }
  out->digits = digits;
  return p;
}

inline constexpr double kPowersOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
inline constexpr int kMaxExactPower = 22;  // the powers above are exact

// Like Nearest, for digits that exceed 53 bits. Requires a floating-point format with a 64-bit
// significand, as on x86. One correctly rounded operation in that format yields the nearest double,
// except if its result is exactly halfway between two doubles.
inline bool NearestByExtended(const Decimal& decimal, double* out) {
  if constexpr (std::numeric_limits<long double>::digits != 64) return false;
  const int power = decimal.exponent;
  const auto digits = static_cast<long double>(decimal.digits);
  const long double value =
      power < 0 ? digits / kPowersOfTen[-power] : digits * kPowersOfTen[power];
  uint64_t significand;
  std::memcpy(&significand, &value, sizeof(significand));
  constexpr uint64_t kDropped = (uint64_t{1} << 11) - 1, kMiddle = uint64_t{1} << 10;
  if ((significand & kDropped) == kMiddle) return false;
  *out = static_cast<double>(decimal.negative ? -value : value);
  return true;
}

// If a few multiplications suffice, sets `out` to the nearest value and returns true.
//
// One correctly rounded operation on exact numbers yields the nearest value (Clinger, "How to read
// floating point numbers accurately", 1990).
inline bool Nearest(const Decimal& decimal, double* out) {
  constexpr uint64_t kMaxExact = uint64_t{1} << 53;
  const int power = decimal.exponent;
  if (power < -kMaxExactPower || power > kMaxExactPower) return false;
  if (decimal.digits > kMaxExact) return NearestByExtended(decimal, out);
  const auto digits = static_cast<double>(decimal.digits);
  const double value = power < 0 ? digits / kPowersOfTen[-power] : digits * kPowersOfTen[power];
  *out = decimal.negative ? -value : value;
  return true;
}

// For single precision, two roundings in double precision suffice. Their error is below 2 units in
// the last place, so it affects the result only if the value is that close to the midpoint of two
// floats.
inline bool Nearest(const Decimal& decimal, float* out) {
  const int power = decimal.exponent;
  if (power < -kMaxExactPower || power > kMaxExactPower) return false;
  const auto digits = static_cast<double>(decimal.digits);
  const double value = power < 0 ? digits / kPowersOfTen[-power] : digits * kPowersOfTen[power];
  constexpr uint64_t kDropped = (uint64_t{1} << 29) - 1;  // bits that a float lacks
  constexpr uint64_t kMiddle = uint64_t{1} << 28, kMargin = 4;
  const uint64_t dropped = std::bit_cast<uint64_t>(value) & kDropped;
  if (dropped - (kMiddle - kMargin) <= 2 * kMargin) return false;
  // No value is subnormal: the smallest are 0 and 1e-22.
  const auto nearest = static_cast<float>(value);
  if (nearest > std::numeric_limits<float>::max()) return false;
  *out = decimal.negative ? -nearest : nearest;
  return true;
}

// Parses common numbers. Returns null for all others.
template <typename T>
inline const char* ParseUsualFloat(const char* p, T* out) {
  Decimal decimal;
  const char* const end = ScanDecimal(p, &decimal);
  return end != nullptr && Nearest(decimal, out) ? end : nullptr;
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_DECIMAL_H_
