// SPDX-License-Identifier: Apache-2.0
#include "framework/core/json.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

TEST(JsonQuoteTest, EscapesOnlyWhatJsonRequires) {
  EXPECT_EQ(JsonQuote(""), R"("")");
  EXPECT_EQ(JsonQuote("a/b <ü> €"), "\"a/b <ü> €\"");
  EXPECT_EQ(JsonQuote("\"\\\b\f\n\r\t"), R"("\"\\\b\f\n\r\t")");
  EXPECT_EQ(JsonQuote(absl::string_view("\0\x1f\x7f", 3)), "\"\\u0000\\u001f\x7f\"");
}

TEST(JsonQuoteTest, EveryByteStringBecomesValidJson) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const char bytes[] = {static_cast<char>(first), static_cast<char>(second), 'x'};
      const absl::string_view text(bytes, 3);
      const auto parsed = nlohmann::json::parse(JsonQuote(text), nullptr, false);
      ASSERT_TRUE(parsed.is_string()) << first << " " << second;
      if (IsUtf8(text)) {
        EXPECT_EQ(parsed.get<std::string>(), std::string(text));
      }
    }
  }
}

TEST(JsonQuoteTest, ReplacesEachInvalidByte) {
  EXPECT_EQ(JsonQuote("a\xFFz\xE2\x82"), "\"a\uFFFDz\uFFFD\uFFFD\"");
}

TEST(IsUtf8Test, AcceptsFirstAndLastCharacterOfEachLength) {
  for (const char* text :
       {"\x01", "\x7f", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsUtf8(text)) << JsonQuote(text);
    EXPECT_EQ(Utf8CharacterLength(text), absl::string_view(text).size());
  }
}

TEST(IsUtf8Test, RejectsOverlongSurrogateTooLargeAndTruncatedCharacters) {
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC2", "\xE2\x82",
        "\xF0\x9F\x98", "\xE2\x28\xA1", "\xE2\x82\x28", "\xFF"}) {
    EXPECT_FALSE(IsUtf8(text)) << JsonQuote(text);
    EXPECT_EQ(Utf8CharacterLength(text), 0u);
  }
}

}  // namespace
}  // namespace mirrorflow
