// SPDX-License-Identifier: Apache-2.0
#include "framework/core/dtype.h"

#include <string>
#include <type_traits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

TEST(DataTypeTest, NamesParseBackToSameType) {
  int known = 0;
  for (int number = 0; number < 256; ++number) {
    if (!IsKnownDataType(number)) continue;
    ++known;
    const auto dtype = static_cast<DataType>(number);
    const absl::StatusOr<DataType> parsed = ParseDataType(DataTypeName(dtype));
    ASSERT_TRUE(parsed.ok()) << number;
    EXPECT_EQ(*parsed, dtype);
  }
  EXPECT_EQ(known, 18);
}

TEST(DataTypeTest, NumbersWithoutNameAreUnknown) {
  EXPECT_FALSE(IsKnownDataType(DT_INVALID));
  EXPECT_FALSE(IsKnownDataType(11));   // qint8
  EXPECT_FALSE(IsKnownDataType(101));  // a reference type
  EXPECT_FALSE(IsKnownDataType(-1));
  EXPECT_EQ(DataTypeName(static_cast<DataType>(11)), "invalid");
  EXPECT_EQ(DataTypeSize(static_cast<DataType>(11)), 0u);
}

TEST(DataTypeTest, ParseErrorNamesUnknownType) {
  EXPECT_THAT(ParseDataType("Float").status(),
              IsError(absl::StatusCode::kInvalidArgument, "unknown dtype 'Float'"));
  EXPECT_THAT(ParseDataType("invalid").status(),
              IsError(absl::StatusCode::kInvalidArgument, "unknown dtype 'invalid'"));
}

TEST(DataTypeTest, SizesMatchCppTypes) {
  EXPECT_EQ(DataTypeSize(DT_FLOAT), sizeof(float));
  EXPECT_EQ(DataTypeSize(DT_BOOL), sizeof(bool));
  EXPECT_EQ(DataTypeSize(DT_HALF), 2u);
  EXPECT_EQ(DataTypeSize(DT_COMPLEX128), 16u);
  EXPECT_EQ(DataTypeSize(DT_STRING), 0u);
  EXPECT_EQ(DataTypeSize(DT_RESOURCE), 0u);
}

TEST(DataTypeTest, OnlyRealFloatsAreFloating) {
  for (DataType floating : {DT_FLOAT, DT_DOUBLE, DT_HALF, DT_BFLOAT16}) {
    EXPECT_TRUE(IsFloating(floating)) << DataTypeName(floating);
  }
  for (DataType other : {DT_INT32, DT_UINT64, DT_BOOL, DT_COMPLEX64, DT_STRING, DT_INVALID}) {
    EXPECT_FALSE(IsFloating(other)) << DataTypeName(other);
  }
}

TEST(DispatchDataTypeTest, CallsFunctionWithMatchingCppType) {
  for (DataType dtype : {DT_FLOAT, DT_DOUBLE, DT_INT32, DT_INT64, DT_UINT8, DT_BOOL}) {
    const DataType seen = DispatchDataType(
        dtype, [](auto tag) { return DataTypeOf<typename decltype(tag)::type>(); }, DT_INVALID);
    EXPECT_EQ(seen, dtype);
  }
}

TEST(DispatchDataTypeTest, ReturnsFallbackForDtypesWithoutKernels) {
  for (DataType dtype : {DT_HALF, DT_STRING, DT_INVALID}) {
    EXPECT_EQ(DispatchDataType(
                  dtype, [](auto) { return 1; }, 2),
              2);
  }
}

}  // namespace
}  // namespace mirrorflow
