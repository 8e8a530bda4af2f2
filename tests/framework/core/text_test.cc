// SPDX-License-Identifier: Apache-2.0
#include "framework/core/text.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

std::string Plain(absl::string_view bytes) {
  const absl::StatusOr<std::string> text = PlainText(bytes);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

TEST(TextTest, LineEndingsOfEverySystemBecomeNewlines) {
  EXPECT_EQ(Plain("a\nb\n"), "a\nb\n");
  EXPECT_EQ(Plain("a\r\nb\r\n"), "a\nb\n");
  EXPECT_EQ(Plain("a\rb\r"), "a\nb\n");
  EXPECT_EQ(Plain("a\r\n\rb\r\r\nc\n"), "a\n\nb\n\nc\n");
  EXPECT_EQ(Plain(""), "");
}

TEST(TextTest, ByteOrderMarkAndFinalCtrlZAreRemoved) {
  EXPECT_EQ(Plain("\xef\xbb\xbf"
                  "a\n"),
            "a\n");
  EXPECT_EQ(Plain("a\n\x1a\x1a"), "a\n");
  EXPECT_EQ(Plain("a\r\n\x1a\r\n"), "a\n");
  EXPECT_EQ(Plain("a\x1a\n\x1a\r\r"), "a");
  EXPECT_EQ(Plain("\x1a"), "");
  EXPECT_EQ(Plain("\n\x1a\n"), "\n");
  EXPECT_EQ(Plain("\x1a\na\n\n"), "\x1a\na\n\n");
  EXPECT_EQ(Plain("\xef\xbb\xbf"), "");
  EXPECT_EQ(Plain("\xff\xfe"), "");
  EXPECT_EQ(Plain("a\x1a"
                  "b"),
            "a\x1a"
            "b");
  EXPECT_EQ(Plain("\xef\xbb"), "\xef\xbb");
}

TEST(TextTest, Utf16BecomesUtf8) {
  // The text has a character of each UTF-8 length.
  const std::string utf8 = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\n";
  EXPECT_EQ(Plain(absl::string_view("\xff\xfe"
                                    "a\0\xe9\0\xac\x20\x3d\xd8\0\xde\r\0\n\0",
                                    16)),
            utf8);
  EXPECT_EQ(Plain(absl::string_view("\xfe\xff\0a\0\xe9\x20\xac\xd8\x3d\xde\0\0\r\0\n", 16)), utf8);
}

TEST(TextTest, StrayControlCharacterIsNamed) {
  EXPECT_EQ(StrayControl("a\fb\v"), "a form feed");
  EXPECT_EQ(StrayControl("a\v"), "a vertical tab");
  EXPECT_EQ(StrayControl("a\x1e"), "the control character 0x1e");
  EXPECT_EQ(StrayControl("\x7f"), "the control character 0x7f");
  EXPECT_EQ(StrayControl("a\xc2\x85"), "NEL (U+0085)");
  EXPECT_EQ(StrayControl("a\xc2\x8d"), "the control character U+008D");
  EXPECT_EQ(StrayControl("\xe2\x80\xa8"), "U+2028");
  EXPECT_EQ(StrayControl("\xe2\x80\xa9"), "U+2029");
  // None of these has a stray control: tabs, line endings, a no-break space, the euro sign and
  // truncated characters.
  for (const char* text : {"", "a\tb\r\n", "\xc2\xa0", "\xe2\x82\xac", "\xc2", "\xe2\x80"}) {
    EXPECT_EQ(StrayControl(text), "") << text;
  }
}

TEST(TextTest, DecodingInPartsGivesTheSameText) {
  const std::string bytes(
      "\xff\xfe"
      "a\0\xe9\0\xac\x20\x3d\xd8\0\xde\n\0",
      14);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    TextDecoder decoder;
    std::string text;
    ASSERT_TRUE(decoder.Decode(bytes.substr(0, cut), false, &text).ok()) << cut;
    ASSERT_TRUE(decoder.Decode(bytes.substr(cut), true, &text).ok()) << cut;
    EXPECT_EQ(text, Plain(bytes)) << cut;
  }
}

TEST(TextTest, BrokenUtf16AndZeroBytesAreErrorsThatNameTheByte) {
  const struct {
    std::string bytes;
    std::string what;
  } cases[] = {{std::string("\xff\xfe"
                            "a\0b",
                            5),
                "byte 4"},
               {std::string("\xff\xfe"
                            "a\0\0\xde",
                            6),
                "byte 4"},
               {std::string("\xff\xfe"
                            "\x3d\xd8"
                            "a\0",
                            6),
                "byte 2"},
               {std::string("\xff\xfe"
                            "\x3d\xd8",
                            4),
                "byte 2"},
               {std::string("ab\0", 3), "byte 2"},
               {std::string("a\0b\0", 4), "UTF-16"}};
  for (const auto& [bytes, what] : cases) {
    const absl::Status status = PlainText(bytes).status();
    EXPECT_THAT(status, IsError(absl::StatusCode::kDataLoss, what));
  }
}

}  // namespace
}  // namespace mirrorflow
