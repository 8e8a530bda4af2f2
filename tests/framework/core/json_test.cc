// SPDX-License-Identifier: Apache-2.0
#include "framework/core/json.h"

#include <cmath>

#include "framework/core/utf8.h"
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

TEST(JsonQuoteTest, ReplacesMalformedSequences) {
  EXPECT_EQ(JsonQuote("a\xFFz\xE2\x82"), "\"a\uFFFDz\uFFFD\"");
}

TEST(JsonTextTest, StaysOnOneLineInTheOrderOfItsKeys) {
  const nlohmann::ordered_json json = {{"z", "1\n\xFF"}, {"a", {1, 2.5, NAN, nullptr}}};
  EXPECT_EQ(JsonText(json), "{\"z\":\"1\\n\uFFFD\",\"a\":[1,2.5,null,null]}");
}

}  // namespace
}  // namespace mirrorflow
