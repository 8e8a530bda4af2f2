// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "framework/core/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

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

TEST(ParseJsonTest, OtherTextIsRefused) {
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

TEST(ParseJsonTest, BracketsThatCloseOrAreInStringsAddNoDepth) {
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
  EXPECT_FALSE(CheckJsonLimits(std::string(1 << 21, ',')).ok());
}

}  // namespace
}  // namespace mirrorflow
