// SPDX-License-Identifier: Apache-2.0
//
// Tests parsing attribute and tensor values as the text form writes them.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/literals.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

absl::Status ValueError(absl::string_view text) { return ParseAttrValue(text).status(); }
absl::Status TensorError(absl::string_view text) { return ParseTensorLiteral(text).status(); }

TEST(ParseAttrValueTest, DistinguishesTypes) {
  const std::pair<const char*, AttrValue> rows[] = {
      {"3", 3},
      {" -9223372036854775808 ", std::numeric_limits<int64_t>::min()},
      {"3.0", 3.0f},
      {"1e-05", 1e-5f},
      {"inf", std::numeric_limits<float>::infinity()},
      {"-inf", -std::numeric_limits<float>::infinity()},
      {"true", true},
      {"float", DT_FLOAT},
      {"\"float\"", "float"},
      {"\"a\\tb\\x00\\\"\"", std::string("a\tb\0\"", 5)},
      {"<2,?>", Shape({2, -1})},
      {"< 2 , ? >", Shape({2, -1})},
      {"<>", Shape()},
      {"<*>", Shape::UnknownRank()},
      {"int32<2>{1, 2}", Tensor::Vector<int32_t>({1, 2})},
      {"[]", AttrList{}},
      {"[1,2 , 3]", AttrList{1, 2, 3}},
      {"@fn", FunctionRef{"fn", {}}},
      {"@\"f n\"{a=1, b=@g{}}", FunctionRef{"f n", {{"a", 1}, {"b", FunctionRef{"g", {}}}}}},
  };
  for (const auto& [text, value] : rows) {
    const absl::StatusOr<AttrValue> parsed = ParseAttrValue(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, value) << text;
  }
}

TEST(ParseAttrValueTest, ErrorsNameColumnExpectedAndActual) {
  EXPECT_THAT(ValueError(""), IsError(kInvalid, "line 1, column 1:", "a value", "got the end"));
  EXPECT_THAT(ValueError("[1, 2"),
              IsError(kInvalid, "line 1, column 6:", "',' or ']'", "got the end"));
  EXPECT_THAT(ValueError("[1,\n 2;"),
              IsError(kInvalid, "line 2, column 3:", "',' or ']'", "got ';'"));
  EXPECT_THAT(ValueError("flaot"),
              IsError(kInvalid, "line 1, column 1:", "a value", "got 'flaot'"));
  EXPECT_THAT(ValueError("1 2"), IsError(kInvalid, "line 1, column 3:", "the end", "got '2'"));
  EXPECT_THAT(ValueError("12x"), IsError(kInvalid, "line 1, column 1:", "int", "got '12x'"));
  EXPECT_THAT(ValueError("<2,x>"), IsError(kInvalid, "line 1, column 4:", "dimension", "got 'x'"));
  EXPECT_THAT(ValueError("<2"),
              IsError(kInvalid, "line 1, column 3:", "',' or '>'", "got the end"));
  EXPECT_THAT(ValueError("\"abc"), IsError(kInvalid, "line 1, column 1:", "'\"'", "string"));
  EXPECT_THAT(ValueError("\"\\q\""), IsError(kInvalid, "line 1, column 2:", "escapes"));
  EXPECT_THAT(ValueError("@f{a}"), IsError(kInvalid, "line 1, column 5:", "'='", "got '}'"));
  EXPECT_THAT(ValueError("\x01"), IsError(kInvalid, "line 1, column 1:", "a value", "got '\\x01'"));
}

TEST(ParseAttrValueTest, RejectsOutOfRangeAndMalformedNumbers) {
  EXPECT_THAT(ValueError("9223372036854775808"), IsError(kInvalid, "an int", "float"));
  EXPECT_THAT(ValueError("1e39"), IsError(kInvalid, "an int", "got '1e39'"));
  EXPECT_THAT(ValueError("0x10"), IsError(kInvalid, "an int", "float"));
  EXPECT_THAT(ValueError("--1"), IsError(kInvalid, "an int", "float"));
  EXPECT_THAT(ValueError("nan(0x0)"), IsError(kInvalid, "an int", "float"));
}

TEST(ParseAttrValueTest, RejectsImpossibleShapes) {
  EXPECT_THAT(ValueError("<1,1,1,1,1,1,1,1,1>"), IsError(kInvalid, "rank", "at most 8"));
  EXPECT_THAT(ValueError("<9223372036854775807,9>"), IsError(kInvalid, "overflows"));
  EXPECT_THAT(ValueError("<-1>"), IsError(kInvalid, "dimension", "got '-1'"));
}

TEST(ParseAttrValueTest, LimitsNesting) {
  const auto nested = [](int depth) {
    return absl::StrCat(std::string(depth, '['), std::string(depth, ']'));
  };
  EXPECT_TRUE(ParseAttrValue(nested(50)).ok());
  EXPECT_THAT(ValueError(nested(51)), IsError(kInvalid, "line 1, column 51:", "nesting"));
  EXPECT_THAT(ValueError(std::string(200000, '[')), IsError(kInvalid, "nesting", "50"));
  std::string functions;
  for (int i = 0; i < 100000; ++i) functions += "@f{a=";
  EXPECT_THAT(ValueError(functions), IsError(kInvalid, "nesting", "50"));
}

TEST(ParseAttrMapTest, ReadsMapAndEmptyText) {
  EXPECT_EQ(*ParseAttrMap("{T=float, strides=[1, 2], \"_a b\"=\"x\"}"),
            (AttrMap{{"T", DT_FLOAT}, {"strides", AttrList{1, 2}}, {"_a b", "x"}}));
  EXPECT_TRUE(ParseAttrMap("").value().empty());
  EXPECT_TRUE(ParseAttrMap(" { } ").value().empty());
}

TEST(ParseAttrMapTest, ErrorNamesDuplicateAttribute) {
  EXPECT_THAT(ParseAttrMap("{a=1, a=2}").status(),
              IsError(kInvalid, "line 1, column 7:", "attribute 'a'", "twice"));
}

TEST(ParseTensorLiteralTest, AcceptsIntegersForFloats) {
  EXPECT_THAT(ParseTensorLiteral("float<2,3>{1, 2.5, -3, 1e3, 0, 6}")->flat<float>(),
              ElementsAre(1, 2.5, -3, 1000, 0, 6));
  const float zero = ParseTensorLiteral("float<>{-0}")->scalar<float>();
  EXPECT_TRUE(std::signbit(zero));
  EXPECT_EQ(ParseTensorLiteral("double<>{123456789012345678901234567890}")->scalar<double>(),
            123456789012345678901234567890.0);
}

TEST(ParseTensorLiteralTest, ReadsNonFiniteValues) {
  const Tensor t = *ParseTensorLiteral("double<4>{nan, -nan, inf, -inf}");
  EXPECT_TRUE(std::isnan(t.flat<double>()[0]) && !std::signbit(t.flat<double>()[0]));
  EXPECT_TRUE(std::isnan(t.flat<double>()[1]) && std::signbit(t.flat<double>()[1]));
  EXPECT_EQ(t.flat<double>()[2], std::numeric_limits<double>::infinity());
  EXPECT_EQ(t.flat<double>()[3], -std::numeric_limits<double>::infinity());
}

TEST(ParseTensorLiteralTest, ReadsEachTypeUpToItsLimits) {
  for (const char* text : {
           "bool<2>{true, false}",
           "uint8<2>{0, 255}",
           "int8<2>{-128, 127}",
           "int16<2>{-32768, 32767}",
           "uint16<1>{65535}",
           "int32<2>{-2147483648, 2147483647}",
           "uint32<1>{4294967295}",
           "int64<2>{-9223372036854775808, 9223372036854775807}",
           "uint64<1>{18446744073709551615}",
           "half<1>{15360}",
           "bfloat16<1>{16256}",
           "complex64<2>{1.0, -2.0, 0.5, 0.25}",
           "complex128<>{0.1, 0.2}",
           "float<0,3>{}",
       }) {
    const absl::StatusOr<Tensor> tensor = ParseTensorLiteral(text);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(TensorToString(*tensor), text);
  }
}

TEST(ParseTensorLiteralTest, RejectsElementsOfDifferentType) {
  EXPECT_THAT(TensorError("uint8<1>{256}"),
              IsError(kInvalid, "line 1, column 10:", "uint8", "got '256'"));
  EXPECT_THAT(TensorError("int8<1>{-129}"),
              IsError(kInvalid, "line 1, column 9:", "int8", "got '-129'"));
  EXPECT_THAT(TensorError("uint8<1>{-1}"),
              IsError(kInvalid, "line 1, column 10:", "uint8", "got '-1'"));
  EXPECT_THAT(TensorError("int32<1>{1.0}"),
              IsError(kInvalid, "line 1, column 10:", "int32", "got '1.0'"));
  EXPECT_THAT(TensorError("bool<1>{1}"), IsError(kInvalid, "line 1, column 9:", "bool", "got '1'"));
  EXPECT_THAT(TensorError("float<1>{true}"),
              IsError(kInvalid, "line 1, column 10:", "float", "got 'true'"));
  EXPECT_THAT(TensorError("float<1>{1e39}"),
              IsError(kInvalid, "line 1, column 10:", "float", "got '1e39'"));
  EXPECT_THAT(TensorError("half<1>{1.5}"),
              IsError(kInvalid, "line 1, column 9:", "bits", "got '1.5'"));
  EXPECT_THAT(TensorError("float<1>{}"),
              IsError(kInvalid, "line 1, column 9:", "expected 1", "got 0"));
}

TEST(ParseTensorLiteralTest, RejectsInvalidShapesAndTypes) {
  EXPECT_THAT(TensorError("float<?>{1}"), IsError(kInvalid, "line 1, column 1:", "shape", "known"));
  EXPECT_THAT(TensorError("float<*>{}"), IsError(kInvalid, "shape", "known"));
  EXPECT_THAT(TensorError("string<>{}"), IsError(kInvalid, "dtype string"));
  EXPECT_THAT(TensorError("flot<1>{1}"),
              IsError(kInvalid, "line 1, column 1:", "dtype", "got 'flot'"));
  EXPECT_THAT(TensorError("double<4611686018427387904>{}"), IsError(kInvalid, "overflows"));
}

TEST(ParseTensorLiteralTest, AllocatesNothingForMissingElements) {
  EXPECT_THAT(TensorError("float<1000000000000>{1}"),
              IsError(kInvalid, "[1000000000000]", "got 1"));
}

}  // namespace
}  // namespace mirrorflow
