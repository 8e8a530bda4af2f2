// SPDX-License-Identifier: Apache-2.0
#include "train/safetensors/safetensors.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string WithLength(uint64_t length, absl::string_view rest) {
  char bytes[8];
  std::memcpy(bytes, &length, 8);
  return absl::StrCat(absl::string_view(bytes, 8), rest);
}

Tensor Raw(DataType dtype, const Shape& shape, absl::string_view hex) {
  const std::string bytes = absl::HexStringToBytes(hex);
  Tensor tensor = *Tensor::Allocate(dtype, shape);
  EXPECT_EQ(tensor.bytes(), bytes.size());
  std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  return tensor;
}

// Returns one tensor of each dtype.
Safetensors Everything() {
  return {{{"b/weights", Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
           {"a", Tensor::Vector<bool>({true, false, true})},
           {"z", Tensor::Scalar<double>(2.5)},
           {"c\"q\nü", Tensor::Vector<int64_t>({-1})},
           {"u8", Tensor::Vector<uint8_t>({7, 8})},
           {"i8", Raw(DT_INT8, {1}, "ff")},
           {"i16", Raw(DT_INT16, {1}, "feff")},
           {"u16", Raw(DT_UINT16, {1}, "0300")},
           {"f16", Raw(DT_HALF, {1}, "003e")},
           {"i32", Tensor::Vector<int32_t>({4})},
           {"u32", Raw(DT_UINT32, {1}, "05000000")},
           {"c64", Raw(DT_COMPLEX64, {1}, "0000803f00000040")},
           {"u64", Raw(DT_UINT64, {1}, "0600000000000000")},
           {"empty", *Tensor::Allocate(DT_FLOAT, {0, 3})},
           {"bf16", Raw(DT_BFLOAT16, {1}, "803f")}},
          {{"k\t\x01\x7f", "€/\\"}}};
}

// Returns what safetensors 0.8.0's numpy save() writes for the same tensors, with bfloat16 from
// ml_dtypes.
std::string EverythingByTheReference() {
  const std::string header =
      "{\"__metadata__\":{\"k\\t\\u0001\x7f\":\"€/\\\\\"},"
      R"("u64":{"dtype":"U64","shape":[1],"data_offsets":[0,8]},)"
      R"("c\"q\nü":{"dtype":"I64","shape":[1],"data_offsets":[8,16]},)"
      R"("z":{"dtype":"F64","shape":[],"data_offsets":[16,24]},)"
      R"("c64":{"dtype":"C64","shape":[1],"data_offsets":[24,32]},)"
      R"("b/weights":{"dtype":"F32","shape":[2,3],"data_offsets":[32,56]},)"
      R"("empty":{"dtype":"F32","shape":[0,3],"data_offsets":[56,56]},)"
      R"("u32":{"dtype":"U32","shape":[1],"data_offsets":[56,60]},)"
      R"("i32":{"dtype":"I32","shape":[1],"data_offsets":[60,64]},)"
      R"("bf16":{"dtype":"BF16","shape":[1],"data_offsets":[64,66]},)"
      R"("f16":{"dtype":"F16","shape":[1],"data_offsets":[66,68]},)"
      R"("u16":{"dtype":"U16","shape":[1],"data_offsets":[68,70]},)"
      R"("i16":{"dtype":"I16","shape":[1],"data_offsets":[70,72]},)"
      R"("i8":{"dtype":"I8","shape":[1],"data_offsets":[72,73]},)"
      R"("u8":{"dtype":"U8","shape":[2],"data_offsets":[73,75]},)"
      R"("a":{"dtype":"BOOL","shape":[3],"data_offsets":[75,78]}} )";
  return WithLength(904,
                    absl::StrCat(header, absl::HexStringToBytes("0600000000000000ffffffffffffffff"
                                                                "00000000000004400000803f00000040"
                                                                "0000803f000000400000404000008040"
                                                                "0000a0400000c0400500000004000000"
                                                                "803f003e0300feffff0708010001")));
}

void ExpectEqual(const Safetensors& got, const Safetensors& expected) {
  EXPECT_EQ(got.metadata, expected.metadata);
  ASSERT_EQ(got.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_EQ(got.tensors.count(name), 1u) << name;
    EXPECT_TRUE(Tensor::Identical(got.tensors.at(name), tensor)) << name;
  }
}

absl::Status ErrorOf(absl::string_view contents) {
  const std::string path = WriteTemporary("bad.safetensors", contents);
  absl::Status status = ReadSafetensors(path).status();
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith(absl::StrCat(path, ": ")));
  return status;
}

TEST(SafetensorsTest, WritesSameBytesAsReference) {
  const std::string path = TemporaryPath("everything.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, Everything()).ok());
  EXPECT_EQ(Contents(path), EverythingByTheReference());
  ASSERT_TRUE(WriteSafetensors(path, {}).ok());
  EXPECT_EQ(Contents(path), absl::HexStringToBytes("08000000000000007b7d202020202020"));
}

TEST(SafetensorsTest, ReadsFileWrittenByReference) {
  const auto got =
      ReadSafetensors(WriteTemporary("everything.safetensors", EverythingByTheReference()));
  ASSERT_TRUE(got.ok()) << got.status();
  ExpectEqual(*got, Everything());
}

TEST(SafetensorsTest, TensorsAreAlignedAndOutliveFile) {
  const std::string path = TemporaryPath("aligned.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, Everything()).ok());
  const auto got = ReadSafetensors(path);
  ASSERT_TRUE(got.ok());
  ASSERT_TRUE(WriteSafetensors(path, {}).ok());
  for (const auto& [name, tensor] : got->tensors) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.raw()) % kBufferAlignment, 0u) << name;
  }
  ExpectEqual(*got, Everything());
}

TEST(SafetensorsTest, InvalidTensorLeavesOldFileUnchanged) {
  const std::string path = TemporaryPath("kept.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, Everything()).ok());
  const absl::Status status = WriteSafetensors(path, {{{"x", Tensor()}}, {}});
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, path));
  EXPECT_EQ(Contents(path), EverythingByTheReference());
}

TEST(SafetensorsTest, MissingFilesAndDirectoriesAreErrors) {
  EXPECT_THAT(ReadSafetensors(TemporaryPath("none")).status(),
              IsError(absl::StatusCode::kNotFound, TemporaryPath("none"), "No such file"));
  EXPECT_THAT(
      ReadSafetensors(::testing::TempDir()).status(),
      IsError(absl::StatusCode::kFailedPrecondition, ::testing::TempDir(), "got a directory"));
  EXPECT_THAT(
      WriteSafetensors(TemporaryPath("no/such/directory"), {}),
      IsError(absl::StatusCode::kNotFound, TemporaryPath("no/such/directory"), "No such file"));
}

TEST(SafetensorsTest, InvalidLengthNamesBrokenRule) {
  EXPECT_THAT(ErrorOf("1234567"),
              IsError(absl::StatusCode::kDataLoss, "HeaderTooSmall", "at least 8", "got 7"));
  EXPECT_THAT(
      ErrorOf(WithLength(100'000'001, "{}")),
      IsError(absl::StatusCode::kDataLoss, "HeaderTooLarge", "at most 100000000", "got 100000001"));
  EXPECT_THAT(ErrorOf(WithLength(uint64_t{1} << 63, "{}")),
              IsError(absl::StatusCode::kDataLoss, "HeaderTooLarge"));
  EXPECT_THAT(ErrorOf(WithLength(~uint64_t{0}, "{}")),
              IsError(absl::StatusCode::kDataLoss, "HeaderTooLarge"));
  EXPECT_THAT(ErrorOf(WithLength(3, "{}")),
              IsError(absl::StatusCode::kDataLoss, "InvalidHeaderLength", "11 bytes", "got 10"));
  EXPECT_THAT(ErrorOf(WithLength(0, "")),
              IsError(absl::StatusCode::kDataLoss, "InvalidHeaderStart"));
  EXPECT_THAT(ErrorOf(WithLength(100'000'000, "{}")),
              IsError(absl::StatusCode::kDataLoss, "InvalidHeaderLength"));
}

TEST(SafetensorsTest, TruncatedOrExtendedFileIsRejected) {
  const std::string whole = EverythingByTheReference();
  for (size_t n = 0; n < whole.size(); ++n)
    EXPECT_EQ(ErrorOf(whole.substr(0, n)).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(ErrorOf(whole + "x"), IsError(absl::StatusCode::kDataLoss, "MetadataIncompleteBuffer",
                                            "78 bytes", "got 79"));
}

TEST(SafetensorsTest, BoolOtherThanZeroOrOneIsRejected) {
  EXPECT_THAT(ErrorOf(WithLength(56, R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}} )"
                                     "\x01\x02")),
              IsError(absl::StatusCode::kDataLoss, "InvalidBool", "element 1", "got 2"));
}

}  // namespace
}  // namespace mirrorflow
