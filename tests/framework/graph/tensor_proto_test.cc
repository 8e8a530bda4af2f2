// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/tensor_proto.h"

#include <google/protobuf/text_format.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "framework/graph/attr_value.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

proto::TensorProto Proto(absl::string_view text) {
  proto::TensorProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(std::string(text), &proto)) << text;
  return proto;
}

absl::StatusOr<Tensor> Read(const proto::TensorProto& proto) {
  int64_t repeated_bytes = 1 << 30;
  return TensorFromProto(proto, &repeated_bytes);
}

std::string ReadText(absl::string_view text) {
  const absl::StatusOr<Tensor> tensor = Read(Proto(text));
  return tensor.ok() ? TensorToString(*tensor) : tensor.status().ToString();
}

constexpr char kVector3[] = "tensor_shape { dim { size: 3 } } ";

TEST(TensorFromProtoTest, ReadsContentAsLittleEndianBytes) {
  EXPECT_EQ(ReadText(absl::StrCat("dtype: DT_INT32 tensor_content: '\\001\\000\\000\\000",
                                  "\\000\\001\\000\\000\\377\\377\\377\\377' ", kVector3)),
            "int32<3>{1, 256, -1}");
}

TEST(TensorFromProtoTest, ShortListRepeatsLastValueLongListIsTruncatedEmptyListIsZeros) {
  EXPECT_EQ(ReadText(absl::StrCat("dtype: DT_FLOAT float_val: [1, 2] ", kVector3)),
            "float<3>{1.0, 2.0, 2.0}");
  EXPECT_EQ(ReadText(absl::StrCat("dtype: DT_FLOAT float_val: [1, 2, 3, 4] ", kVector3)),
            "float<3>{1.0, 2.0, 3.0}");
  EXPECT_EQ(ReadText(absl::StrCat("dtype: DT_FLOAT ", kVector3)), "float<3>{0.0, 0.0, 0.0}");
  EXPECT_EQ(ReadText("dtype: DT_INT64 int64_val: 7"), "int64<>{7}");
  EXPECT_EQ(ReadText("dtype: DT_FLOAT float_val: 1 tensor_shape { dim { size: 0 } }"),
            "float<0>{}");
}

TEST(TensorFromProtoTest, ReadsEachDtypeFromItsList) {
  const std::pair<const char*, const char*> rows[] = {
      {"dtype: DT_DOUBLE double_val: 0.1", "double<>{0.1}"},
      {"dtype: DT_INT8 int_val: -128", "int8<>{-128}"},
      {"dtype: DT_UINT8 int_val: 255", "uint8<>{255}"},
      {"dtype: DT_INT16 int_val: -5", "int16<>{-5}"},
      {"dtype: DT_UINT16 int_val: 65535", "uint16<>{65535}"},
      {"dtype: DT_HALF half_val: 15360", "half<>{15360}"},
      {"dtype: DT_BFLOAT16 half_val: 16256", "bfloat16<>{16256}"},
      {"dtype: DT_BOOL bool_val: true", "bool<>{true}"},
      {"dtype: DT_UINT32 uint32_val: 4294967295", "uint32<>{4294967295}"},
      {"dtype: DT_UINT64 uint64_val: 18446744073709551615", "uint64<>{18446744073709551615}"},
      {"dtype: DT_COMPLEX64 scomplex_val: [1, 2] tensor_shape { dim { size: 2 } }",
       "complex64<2>{1.0, 2.0, 1.0, 2.0}"},
      {"dtype: DT_COMPLEX128 dcomplex_val: [1, 2]", "complex128<>{1.0, 2.0}"},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(ReadText(text), expected);
}

TEST(TensorFromProtoTest, ErrorsNameTheCause) {
  const std::pair<const char*, const char*> rows[] = {
      {"dtype: DT_FLOAT tensor_content: 'abc'", "expected 4 bytes for float[], got 3"},
      {"dtype: DT_BOOL tensor_content: '\\002'", "not 0 or 1"},
      {"dtype: DT_INT8 int_val: 200", "out of range for int8: 200"},
      {"dtype: DT_UINT16 int_val: -1", "out of range for uint16: -1"},
      {"dtype: DT_COMPLEX64 scomplex_val: [1, 2, 3]", "lacks its imaginary part"},
      {"dtype: DT_STRING string_val: 'x'", "elements of dtype string"},
      {"dtype: DT_INVALID", "elements of dtype invalid"},
      {"dtype: DT_QINT8", "dtype DT_QINT8 is not supported"},
      {"dtype: DT_FLOAT_REF", "dtype DT_FLOAT_REF is not supported"},
      {"dtype: 77", "dtype 77 is not supported"},
      {"dtype: DT_FLOAT tensor_shape { unknown_rank: true }", "fully defined shape, got [*]"},
      {"dtype: DT_FLOAT tensor_shape { dim { size: -1 } }", "fully defined shape, got [?]"},
      {"dtype: DT_FLOAT tensor_shape { dim { size: -7 } }", "dimensions must be >= 0"},
      {"dtype: DT_FLOAT tensor_shape { dim { size: 4611686018427387904 } }", "overflows"},
      {"dtype: DT_FLOAT tensor_shape { unknown_rank: true dim { size: 1 } }",
       "expected none, got 1"},
  };
  for (const auto& [text, error] : rows) {
    EXPECT_THAT(Read(Proto(text)).status(), IsError(absl::StatusCode::kInvalidArgument, error));
  }
}

TEST(TensorFromProtoTest, RejectsFewBytesThatExpandToGigabytes) {
  const auto proto =
      Proto("dtype: DT_FLOAT float_val: 1 tensor_shape { dim { size: 1000000000000 } }");
  EXPECT_THAT(Read(proto).status(), IsError(absl::StatusCode::kResourceExhausted,
                                            "at most 1073741824 bytes", "got 4000000000000"));
}

TEST(TensorFromProtoTest, ChargesAllRepeatedValuesToOneBudget) {
  const proto::TensorProto proto =
      Proto("dtype: DT_FLOAT float_val: 1 tensor_shape { dim { size: 100 } }");
  int64_t repeated_bytes = 1000;
  EXPECT_TRUE(TensorFromProto(proto, &repeated_bytes).ok());
  EXPECT_EQ(repeated_bytes, 600);
  EXPECT_TRUE(TensorFromProto(proto, &repeated_bytes).ok());
  EXPECT_THAT(TensorFromProto(proto, &repeated_bytes).status(),
              IsError(absl::StatusCode::kResourceExhausted, "at most 200 bytes", "got 400"));
  // A tensor that lists all of its elements is not charged to the budget.
  EXPECT_TRUE(TensorFromProto(Proto("dtype: DT_FLOAT float_val: 1"), &repeated_bytes).ok());
  EXPECT_EQ(repeated_bytes, 200);
}

TEST(TensorToProtoTest, WritesRepeatedValueOnceAndBytesOtherwise) {
  EXPECT_EQ(TensorToProto(Tensor::Vector<float>({2, 2, 2})).ShortDebugString(),
            "dtype: DT_FLOAT tensor_shape { dim { size: 3 } } float_val: 2");
  EXPECT_EQ(TensorToProto(Tensor::Scalar<int32_t>(-4)).ShortDebugString(),
            "dtype: DT_INT32 tensor_shape { } int_val: -4");
  EXPECT_EQ(TensorToProto(Tensor::Vector<uint8_t>({1, 2})).ShortDebugString(),
            "dtype: DT_UINT8 tensor_shape { dim { size: 2 } } tensor_content: \"\\001\\002\"");
  EXPECT_EQ(TensorToProto(*Tensor::Allocate(DT_FLOAT, {0})).ShortDebugString(),
            "dtype: DT_FLOAT tensor_shape { dim { } }");
}

TEST(TensorToProtoTest, EveryDtypeRoundTripsBitwise) {
  for (int number = 1; number < 32; ++number) {
    const auto dtype = static_cast<DataType>(number);
    if (DataTypeSize(dtype) == 0) continue;
    for (int64_t size : {0, 1, 2, 5}) {
      for (bool repeated : {false, true}) {
        Tensor tensor = *Tensor::Allocate(dtype, {size});
        for (size_t i = 0; i < tensor.bytes(); ++i) {
          // Uses only 0 and 1, which are also valid bools.
          tensor.raw()[i] = std::byte(repeated ? 1 : i / DataTypeSize(dtype) % 2);
        }
        const absl::StatusOr<Tensor> copy = Read(TensorToProto(tensor));
        ASSERT_TRUE(copy.ok()) << copy.status();
        EXPECT_TRUE(Tensor::Identical(tensor, *copy)) << TensorToString(tensor);
      }
    }
  }
}

TEST(TensorToProtoTest, KeepsBitsOfNaNsAndNegativeZeros) {
  for (float value : {-0.0f, std::nanf("7"), -std::numeric_limits<float>::quiet_NaN()}) {
    const Tensor tensor = Tensor::Vector<float>({value, value});
    EXPECT_TRUE(Tensor::Identical(tensor, *Read(TensorToProto(tensor)))) << value;
  }
}

}  // namespace
}  // namespace mirrorflow
