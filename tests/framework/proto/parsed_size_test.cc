// SPDX-License-Identifier: Apache-2.0
#include "framework/proto/parsed_size.h"

#include <google/protobuf/text_format.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/proto/graph.pb.h"
#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

constexpr int kMany = 10000;

std::string Field(int number, absl::string_view contents) {
  const auto varint = [](size_t n) {
    std::string text;
    for (; n > 127; n >>= 7) text += static_cast<char>(n | 128);
    return text + static_cast<char>(n);
  };
  return absl::StrCat(varint(8 * number + 2), varint(contents.size()), contents);
}

std::string Times(int count, absl::string_view text) {
  std::string all;
  for (int i = 0; i < count; ++i) absl::StrAppend(&all, text);
  return all;
}

int64_t SizeOf(absl::string_view bytes) {
  ParsedSize size;
  size.AddBinary(*proto::GraphDef::descriptor(), bytes);
  return size.bytes();
}

int64_t SizeOfText(absl::string_view text) {
  ParsedSize size;
  size.AddText(*proto::GraphDef::descriptor(), text);
  return size.bytes();
}

// Expects `size` to be close to the memory that `def` takes. `size` does not count spare capacity.
void ExpectSizeOf(const proto::GraphDef& def, int64_t size, absl::string_view what) {
  const auto taken = static_cast<int64_t>(def.SpaceUsedLong());
  EXPECT_GE(2 * size, taken) << what;
  EXPECT_LE(size, 3 * taken) << what;
}

std::string AttrsOfNode() {
  std::string attrs;
  for (int i = 0; i < kMany; ++i) {
    attrs += Field(5, absl::StrCat(Field(1, absl::StrCat(i)), Field(2, "")));
  }
  return Field(1, attrs);
}

TEST(ParsedSizeTest, SizeOfBinaryMessageIsCloseToItsMemory) {
  const std::string node = Field(3, "");  // a node of a function
  const std::string constant = Field(
      1,
      Field(5, absl::StrCat(Field(1, "value"), Field(2, Field(8, Field(4, Times(99, "12345")))))));
  const auto list = [](int number, const std::string& contents) {
    return Field(
        1, Field(5, absl::StrCat(Field(1, "l"), Field(2, Field(1, Field(number, contents))))));
  };
  const std::pair<const char*, std::string> messages[] = {
      {"nodes", Times(kMany, Field(1, ""))},
      {"nodes with names", Times(kMany, Field(1, Field(1, "a name that needs an allocation")))},
      {"inputs", Field(1, Times(kMany, Field(3, "")))},
      {"attributes", AttrsOfNode()},
      {"functions", Field(2, Times(kMany, Field(1, "")))},
      {"nodes of functions", Field(2, Times(10, Field(1, Times(kMany, node))))},
      {"constant", constant},
      {"packed integers", list(3, Times(kMany, "\x01"))},
      {"packed floats", list(4, Times(kMany, "1234"))},
      {"packed booleans", list(5, Times(kMany, "\x01"))},
      {"packed dtypes", list(6, Times(kMany, "\x01"))},
      {"unknown texts", Times(kMany, Field(100, ""))},
      {"unknown integers", Times(kMany, "\xf8\x7f\x01")},
      {"unknown groups", Times(kMany, "\xfb\x7f\xfc\x7f")},
      {"packed field that is not one", Times(kMany, Field(3, ""))},
  };
  for (const auto& [what, bytes] : messages) {
    proto::GraphDef def;
    ASSERT_TRUE(def.ParseFromString(bytes)) << what;
    ExpectSizeOf(def, SizeOf(bytes), what);
  }
}

TEST(ParsedSizeTest, SizeOfTextMessageIsCloseToItsMemory) {
  std::string attrs;
  for (int i = 0; i < kMany; ++i) absl::StrAppend(&attrs, "attr{key:'", i, "' value{}}");
  const std::pair<const char*, std::string> messages[] = {
      {"nodes", Times(kMany, "node{}")},
      {"list of nodes", absl::StrCat("node:[<>", Times(kMany, ",{}"), "]")},
      {"nodes after a comment", Times(kMany, "node{}#'\n")},
      {"nodes with quotes", Times(kMany, "node{name:'\\''}")},
      {"inputs", absl::StrCat("node{", Times(kMany, "input:''"), "}")},
      {"attributes", absl::StrCat("node{", attrs, "}")},
      {"nodes of functions",
       absl::StrCat("library{function{", Times(kMany, "node_def{op:'x'}"), "}}")},
      {"integers", absl::StrCat("node{attr{key:'l' value{list{i:[0", Times(kMany, ",1"), "]}}}}")},
  };
  for (const auto& [what, text] : messages) {
    proto::GraphDef def;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &def)) << what;
    ExpectSizeOf(def, SizeOfText(text), what);
  }
}

TEST(ParsedSizeTest, TextThatTheParserSkipsDoesNotCount) {
  EXPECT_EQ(SizeOfText(absl::StrCat("debug_info {", Times(kMany, "node{}"), "}")), SizeOfText(""));
}

// The parser keeps what it has read before an error, and continues after some errors in text.
TEST(ParsedSizeTest, MalformedInputCountsUpToWhereTheParserStops) {
  const std::string nodes = Times(kMany, Field(1, Field(3, "x")));
  for (const char* const end : {"\x0a", "\x0a\x7f", "\x0a\x01\x0a", "\x07", "\x0c", "\x0b"}) {
    proto::GraphDef def;
    const std::string bytes = absl::StrCat(nodes, end, nodes);
    EXPECT_FALSE(def.ParseFromString(bytes)) << end;
    EXPECT_GE(2 * SizeOf(bytes), static_cast<int64_t>(def.SpaceUsedLong())) << end;
  }
  for (const char* const node :
       {"node{name:'\n'}", "node{name:'\\\n'}", "node{}version:1", "node{}version:0x",
        "node{experimental_type{i:1args{}i:1.fargs{}i:1efargs{}i:08args{}i:0xargs{}}}", "node{}?",
        "node{}\x01", "node{}\"\n", "node{name:'\\", "node{name:'#", "node{}#'\n", "node {",
        "node{}}", "node<}", "node[{}", "node{[a]{}}"}) {
    proto::GraphDef def;
    const std::string text = Times(kMany, node);
    google::protobuf::TextFormat::Parser parser;
    EXPECT_FALSE(parser.ParseFromString(text + "}", &def)) << node;
    EXPECT_GE(2 * SizeOfText(text), static_cast<int64_t>(def.SpaceUsedLong())) << node;
  }
}

TEST(ParsedSizeTest, DeeplyNestedInputIsNotCounted) {
  const std::string groups(1 << 20, '\x0b');
  std::string bytes;
  for (int i = 0; i < 3000; ++i) {  // attr { value { func { … } } }
    bytes = Field(i + 1 < 3000 ? 2 : 5, Field(2, Field(10, bytes)));
  }
  EXPECT_LT(SizeOf(Field(1, bytes)), 1 << 20);
  EXPECT_LT(SizeOf(groups), 1 << 20);
  EXPECT_LT(SizeOfText(Times(1 << 20, "library{")), 1 << 20);
  EXPECT_LT(SizeOfText(Times(1 << 20, "a{")), 1 << 20);
}

}  // namespace
}  // namespace mirrorflow
