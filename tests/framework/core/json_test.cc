// SPDX-License-Identifier: Apache-2.0
#include "framework/core/json.h"

#include <cmath>
#include <string>
#include <utility>

#include "framework/core/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/is_error.h"

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

TEST(JsonTextTest, KeysStayInOrderOnOneLine) {
  const nlohmann::ordered_json json = {{"z", "1\n\xFF"}, {"a", {1, 2.5, NAN, nullptr}}};
  EXPECT_EQ(JsonText(json), "{\"z\":\"1\\n\uFFFD\",\"a\":[1,2.5,null,null]}");
}

std::string Nested(size_t depth, const std::string& open, const std::string& close) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  text += "1";
  for (size_t i = 0; i < depth; ++i) text += close;
  return text;
}

absl::StatusCode CodeOf(const std::string& text, const JsonLimits& limits = {}) {
  return ParseJson(text, limits).status().code();
}

TEST(ParseJsonTest, ValueIsParsed) {
  const absl::StatusOr<nlohmann::json> json = ParseJson(R"({"a":[1,"x\"]["],"b":{}})");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["a"][1], "x\"][");
}

TEST(ParseJsonTest, MembersOfOrderedJsonKeepTheirOrder) {
  const auto json = ParseJson<nlohmann::ordered_json>(R"({"b":1,"a":2})");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->begin().key(), "b");
}

TEST(ParseJsonTest, MalformedTextIsRejected) {
  for (const char* text : {"", "{", "]", "[1,]", "\"", "\"\\", "[1e999]", "{}{}", "\xff"}) {
    EXPECT_EQ(CodeOf(text), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ParseJsonTest, DepthIsLimited) {
  for (const auto& [open, close] : {std::pair("[", "]"), std::pair("{\"\":", "}")}) {
    EXPECT_TRUE(ParseJson(Nested(128, open, close)).ok());
    for (const size_t depth : {129, 200'000}) {
      const absl::Status status = ParseJson(Nested(depth, open, close)).status();
      EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "128 levels"));
    }
  }
}

TEST(ParseJsonTest, ClosedBracketsAndBracketsInStringsAddNoDepth) {
  std::string flat = "[";
  for (int i = 0; i < 1000; ++i) flat += R"([{"]":"[[\"{\\"}],)";
  EXPECT_TRUE(ParseJson(flat + "1]").ok());
}

TEST(ParseJsonTest, NumberOfValuesIsLimited) {
  const JsonLimits limits = {.values = 4};
  EXPECT_TRUE(ParseJson("[1,2,3]", limits).ok());
  EXPECT_TRUE(ParseJson(R"(["1,2,3,4,5,6",2,3])", limits).ok());
  EXPECT_EQ(CodeOf("[1,2,3,4]", limits), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf("[[],[],[]]", limits), absl::StatusCode::kInvalidArgument);
}

TEST(ParseJsonTest, NumberOfValuesIsLimitedByDefault) {
  EXPECT_EQ(CheckJsonLimits(std::string((1 << 21) - 1, ',')), absl::OkStatus());
  EXPECT_THAT(CheckJsonLimits(std::string(1 << 21, ',')),
              IsError(absl::StatusCode::kInvalidArgument, "JSON", "at most 2097152"));
}

}  // namespace
}  // namespace mirrorflow
