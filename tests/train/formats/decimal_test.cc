// SPDX-License-Identifier: Apache-2.0
#include "train/formats/decimal.h"

#include <cstdlib>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

std::string Padded(std::string text) { return text.append(kDecimalPadding, '\0'); }

// Compares the result with the C library, which rounds correctly. Returns whether the text was
// parsed.
bool Check(const std::string& number) {
  const std::string text = Padded(number);
  double wide;
  const char* end = ParseUsualFloat(text.c_str(), &wide);
  if (end != nullptr) {
    EXPECT_EQ(end, text.c_str() + number.size()) << text;
    EXPECT_EQ(wide, std::strtod(text.c_str(), nullptr)) << text;
  }
  float narrow;
  const char* const narrow_end = ParseUsualFloat(text.c_str(), &narrow);
  if (narrow_end != nullptr) {
    EXPECT_EQ(narrow, std::strtof(text.c_str(), nullptr)) << text;
  }
  return end != nullptr && narrow_end != nullptr;
}

TEST(DecimalTest, RandomNumbersAreCorrectlyRounded) {
  std::mt19937_64 random(1);
  int parsed = 0;
  constexpr int kCount = 200'000;
  for (int i = 0; i < kCount; ++i) {
    const int digits = 1 + static_cast<int>(random() % 19);
    std::string text = (i & 1) != 0 ? "-" : "";
    const int point = static_cast<int>(random() % (digits + 1));
    for (int k = 0; k < digits; ++k) {
      if (k == point) text += '.';
      text += static_cast<char>('0' + random() % 10);
    }
    if (i % 3 == 0) {
      const int exponent = static_cast<int>(random() % 30) - 15;
      absl::StrAppend(&text, "e", exponent < 0 ? "-" : "", std::string(random() % 12, '0'),
                      std::abs(exponent));
    }
    parsed += Check(text);
  }
  EXPECT_GT(parsed, kCount * 9 / 10);
}

TEST(DecimalTest, NumbersNextToMidpointsAreCorrectlyRounded) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100'000; ++i) {
    // The midpoint of two floats has 25 bits, and the midpoint of two doubles has 54.
    const uint64_t middle = (random() >> 41 | 1u << 23) * 2 + 1;
    for (const int64_t off : {-1, 0, 1}) {
      Check(absl::StrCat(middle + off));
      Check(absl::StrCat(middle, off < 0 ? "." : off > 0 ? ".0000001" : ".0"));
      Check(absl::StrCat(middle * 1'000'000'000 + off, "e-9"));
      const uint64_t wide = (random() >> 11 | uint64_t{1} << 52) * 2 + 1;
      Check(absl::StrCat(wide + off));
      Check(absl::StrCat(wide * 100 + off, "e-2"));
    }
  }
}

TEST(DecimalTest, UnusualNumbersAreNotParsed) {
  double value;
  for (const char* text : {"", "-", ".", "e5", "1e", "1e+", "abc", "nan", "inf", "1e23", "1e-23",
                           "00000000000000000001", "12345678901234567890", "1e99999999999"}) {
    EXPECT_EQ(ParseUsualFloat(Padded(text).c_str(), &value), nullptr) << text;
  }
  for (const char* text :
       {"1,2", "1.5,", "1e5x", "+2 ", "1.1234567,9", "1.12345678,", "1.1234567:8", "1.1234567/8",
        "0.123456789012345678,", "1e000001,", "1e-000000000000000000000000022,"}) {
    ASSERT_NE(ParseUsualFloat(Padded(text).c_str(), &value), nullptr) << text;
    EXPECT_EQ(value, std::strtod(text, nullptr));
  }
}

TEST(DecimalTest, IntegersOutOfRangeAreRejected) {
  int32_t value;
  EXPECT_NE(ParseInteger("2147483647", &value), nullptr);
  EXPECT_EQ(value, 2147483647);
  EXPECT_NE(ParseInteger("-2147483648", &value), nullptr);
  EXPECT_EQ(value, -2147483647 - 1);
  for (const char* text : {"2147483648", "-2147483649", "", "+", "-x", "99999999999999999999999"}) {
    EXPECT_EQ(ParseInteger(text, &value), nullptr) << text;
  }
}

}  // namespace
}  // namespace mirrorflow
