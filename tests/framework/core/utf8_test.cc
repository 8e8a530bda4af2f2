// SPDX-License-Identifier: Apache-2.0
#include "framework/core/utf8.h"

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

TEST(IsUtf8Test, AcceptsFirstAndLastCharacterOfEachLength) {
  for (const char* text :
       {"\x01", "\x7f", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsUtf8(text)) << absl::CHexEscape(text);
    EXPECT_EQ(Utf8CharacterLength(text), absl::string_view(text).size());
  }
}

TEST(IsUtf8Test, RejectsOverlongSurrogateTooLargeAndTruncatedCharacters) {
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xED\xBF\xBF",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC2", "\xE2\x82",
        "\xF0\x9F\x98", "\xE2\x28\xA1", "\xE2\x82\x28", "\xFF"}) {
    EXPECT_FALSE(IsUtf8(text)) << absl::CHexEscape(text);
    EXPECT_EQ(Utf8CharacterLength(text), 0u);
  }
}

}  // namespace
}  // namespace mirrorflow
