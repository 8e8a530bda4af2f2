// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/attr_value.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace mirrorflow {
namespace {

struct Row {
  AttrValue value;
  const char* type;
  const char* text;
};

TEST(AttrValueTest, PrintsEachTypeInTextForm) {
  const FunctionRef function{"body", {{"T", DT_FLOAT}, {"n", 2}}};
  const Row rows[] = {
      {"SAME", "string", "\"SAME\""},
      {std::string("a\"\n\0\xff", 5), "string", "\"a\\\"\\n\\x00\\xff\""},
      {-3, "int", "-3"},
      {int64_t{1} << 40, "int", "1099511627776"},
      {0.5f, "float", "0.5"},
      {2.0f, "float", "2.0"},
      {1e30f, "float", "1e+30"},
      {-0.0f, "float", "-0.0"},
      {true, "bool", "true"},
      {DT_INT64, "type", "int64"},
      {DT_INVALID, "type", "invalid"},
      {Shape({2, -1}), "shape", "<2,?>"},
      {Shape(), "shape", "<>"},
      {Shape::UnknownRank(), "shape", "<*>"},
      {Tensor::Vector<int32_t>({1, 2}), "tensor", "int32<2>{1, 2}"},
      {function, "func", "@body{T=float, n=2}"},
      {FunctionRef{"f", {}}, "func", "@f"},
      {FunctionRef{"a b", {}}, "func", "@\"a b\""},
      {AttrList{}, "list", "[]"},
      {AttrList{1, 2}, "list(int)", "[1, 2]"},
      {AttrList{DT_FLOAT, DT_BOOL}, "list(type)", "[float, bool]"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(row.value.ToString(), row.text);
    EXPECT_EQ(row.value.TypeName(), row.type) << row.text;
  }
}

TEST(AttrValueTest, PrintsTensorsOfEveryFixedSizeType) {
  EXPECT_EQ(TensorToString(Tensor::Of<float>({2, 1}, {1, -2.5f})), "float<2,1>{1.0, -2.5}");
  EXPECT_EQ(TensorToString(Tensor::Scalar<uint8_t>(200)), "uint8<>{200}");
  EXPECT_EQ(TensorToString(Tensor::Vector<bool>({true, false})), "bool<2>{true, false}");
  EXPECT_EQ(TensorToString(*Tensor::Allocate(DT_INT8, {0})), "int8<0>{}");
  EXPECT_EQ(TensorToString(*Tensor::Allocate(DT_COMPLEX64, {1})), "complex64<1>{0.0, 0.0}");
  Tensor half = *Tensor::Allocate(DT_HALF, {});
  half.raw()[1] = std::byte{0x3c};
  EXPECT_EQ(TensorToString(half), "half<>{15360}");  // the bits of 1.0 in half precision
}

TEST(AttrValueTest, TruncatesLongTensorsOnRequest) {
  const Tensor tensor = Tensor::Vector<int32_t>({1, 2, 3});
  EXPECT_EQ(TensorToString(tensor, 2), "int32<3>{1, 2, …}");
  EXPECT_EQ(TensorToString(tensor, 3), "int32<3>{1, 2, 3}");
  EXPECT_EQ(AttrValue(AttrList{tensor}).ToString(0), "[int32<3>{…}]");
}

TEST(FloatToStringTest, DistinguishesNaNs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(FloatToString(nan), "nan");
  EXPECT_EQ(FloatToString(-nan), "-nan");
  EXPECT_EQ(FloatToString(std::nanf("7")), "nan(0x7fc00007)");
  EXPECT_EQ(FloatToString(-std::numeric_limits<double>::quiet_NaN()), "-nan");
  EXPECT_EQ(FloatToString(-std::numeric_limits<float>::infinity()), "-inf");
}

TEST(AttrValueTest, ComparesFloatsAndTensorsBitwise) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(AttrValue(nan), AttrValue(nan));
  EXPECT_NE(AttrValue(0.0f), AttrValue(-0.0f));
  EXPECT_EQ(AttrValue(Tensor::Scalar(nan)), AttrValue(Tensor::Scalar(nan)));
  EXPECT_NE(AttrValue(Tensor::Scalar(1.0f)), AttrValue(Tensor::Vector<float>({1.0f})));
}

TEST(AttrValueTest, ValuesOfDifferentTypesDiffer) {
  EXPECT_NE(AttrValue(1), AttrValue(1.0f));
  EXPECT_NE(AttrValue(1), AttrValue(true));
  EXPECT_NE(AttrValue(DT_FLOAT), AttrValue(1));
  EXPECT_NE(AttrValue("float"), AttrValue(DT_FLOAT));
  EXPECT_NE(AttrValue(AttrList{1}), AttrValue(1));
}

TEST(AttrValueTest, ComparesFunctionsByNameAndAttributes) {
  const auto function = [](const char* name, int n) {
    return AttrValue(FunctionRef{name, {{"n", n}}});
  };
  EXPECT_EQ(function("f", 1), function("f", 1));
  EXPECT_NE(function("f", 1), function("g", 1));
  EXPECT_NE(function("f", 1), function("f", 2));
}

TEST(AttrValueTest, ListOfCppValuesBecomesAttrList) {
  const AttrValue list = AttrValue::List<int64_t>({4, 5});
  EXPECT_EQ(list, AttrValue(AttrList{4, 5}));
}

TEST(AttrMapTest, PrintsSortedAndQuotesNonIdentifiers) {
  const AttrMap attrs = {{"b", 1}, {"T", DT_FLOAT}, {"_a b", true}};
  EXPECT_EQ(AttrMapToString(attrs), "{T=float, \"_a b\"=true, b=1}");
  EXPECT_EQ(AttrMapToString({}), "");
}

}  // namespace
}  // namespace mirrorflow
