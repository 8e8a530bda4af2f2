// SPDX-License-Identifier: Apache-2.0
#include "train/formats/idx.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::StartsWith;

// Returns an IDX file with the bytes 1 to 6, of shape [2,3].
std::string SmallIdx() {
  return absl::StrCat(Bytes({0, 0, 0x08, 2, 0, 0, 0, 2, 0, 0, 0, 3}), Bytes({1, 2, 3, 4, 5, 6}));
}

// Writes `contents` and reads it as IDX.
absl::StatusOr<Tensor> Read(absl::string_view contents) {
  return ReadIdx(WriteTemporary("file.idx", contents));
}

// Returns the error, which must be DataLoss and start with the path.
absl::Status ErrorOf(absl::string_view contents) {
  absl::Status status = Read(contents).status();
  EXPECT_THAT(std::string(status.message()),
              StartsWith(absl::StrCat(TemporaryPath("file.idx"), ": ")));
  return status;
}

TEST(IdxTest, ReadsPlainAndGzipFiles) {
  for (const std::string& contents : {SmallIdx(), Gzip(SmallIdx())}) {
    const auto tensor = Read(contents);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_TRUE(Tensor::Identical(*tensor, Tensor::Of<uint8_t>({2, 3}, {1, 2, 3, 4, 5, 6})));
  }
}

TEST(IdxTest, ReadsAllElementTypesFromBigEndian) {
  const std::string header = Bytes({0, 0, 0, 1, 0, 0, 0, 2});
  auto read = [&](int type, std::initializer_list<int> data) {
    std::string contents = header + Bytes(data);
    contents[2] = type;
    const auto tensor = Read(contents);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    return tensor.value_or(Tensor());
  };
  EXPECT_TRUE(Tensor::Identical(read(0x08, {1, 255}), Tensor::Vector<uint8_t>({1, 255})));
  EXPECT_TRUE(Tensor::Identical(read(0x0C, {0, 0, 1, 2, 255, 255, 255, 254}),
                                Tensor::Vector<int32_t>({258, -2})));
  EXPECT_TRUE(Tensor::Identical(read(0x0D, {0x3F, 0x80, 0, 0, 0xC0, 0x20, 0, 0}),
                                Tensor::Vector<float>({1.0f, -2.5f})));
  EXPECT_TRUE(
      Tensor::Identical(read(0x0E, {0x3F, 0xF0, 0, 0, 0, 0, 0, 0, 0xC0, 0x04, 0, 0, 0, 0, 0, 0}),
                        Tensor::Vector<double>({1.0, -2.5})));
  const Tensor bytes = read(0x09, {1, 254});
  EXPECT_EQ(bytes.dtype(), DT_INT8);
  EXPECT_EQ(reinterpret_cast<const int8_t*>(bytes.raw())[1], -2);
  const Tensor shorts = read(0x0B, {1, 2, 255, 254});
  EXPECT_EQ(shorts.dtype(), DT_INT16);
  EXPECT_EQ(reinterpret_cast<const int16_t*>(shorts.raw())[0], 258);
  EXPECT_EQ(reinterpret_cast<const int16_t*>(shorts.raw())[1], -2);
}

TEST(IdxTest, ReadsScalarAndEmptyDimension) {
  EXPECT_TRUE(Tensor::Identical(*Read(Bytes({0, 0, 8, 0, 7})), Tensor::Scalar<uint8_t>(7)));
  EXPECT_EQ(Read(Bytes({0, 0, 8, 1, 0, 0, 0, 0}))->shape(), Shape({0}));
}

TEST(IdxTest, ConcatenatesGzipMembers) {
  const std::string idx = SmallIdx();
  const auto tensor = Read(Gzip(idx.substr(0, 9)) + Gzip(idx.substr(9)));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->flat<uint8_t>()[5], 6);
}

TEST(IdxTest, MissingFilesAndDirectoriesAreErrors) {
  EXPECT_THAT(ReadIdx(TemporaryPath("no such file")).status(),
              IsError(absl::StatusCode::kNotFound, TemporaryPath("no such file"), "No such file"));
  EXPECT_THAT(
      ReadIdx(::testing::TempDir()).status(),
      IsError(absl::StatusCode::kFailedPrecondition, ::testing::TempDir(), "got a directory"));
}

TEST(IdxTest, FileTruncatedAtAnyByteIsRejected) {
  const std::string plain = SmallIdx(), gzip = Gzip(SmallIdx());
  for (size_t n = 0; n < plain.size(); ++n)
    EXPECT_EQ(ErrorOf(plain.substr(0, n)).code(), absl::StatusCode::kDataLoss);
  for (size_t n = 0; n < gzip.size(); ++n)
    EXPECT_EQ(ErrorOf(gzip.substr(0, n)).code(), absl::StatusCode::kDataLoss);
}

TEST(IdxTest, FlippedBitInGzipFileIsDetectedOrHarmless) {
  const std::string gzip = Gzip(SmallIdx());
  for (size_t bit = 0; bit < 8 * gzip.size(); ++bit) {
    std::string damaged = gzip;
    damaged[bit / 8] ^= 1 << bit % 8;
    const auto tensor = Read(damaged);
    // A checksum covers everything except fields such as the time stamp, which do not affect the
    // data.
    if (tensor.ok()) {
      EXPECT_TRUE(Tensor::Identical(*tensor, Tensor::Of<uint8_t>({2, 3}, {1, 2, 3, 4, 5, 6})))
          << "bit " << bit;
    }
  }
}

TEST(IdxTest, ErrorsReportExpectedAndActualValues) {
  EXPECT_THAT(ErrorOf(""), IsError(absl::StatusCode::kDataLoss, "empty", "got 0 bytes"));
  EXPECT_THAT(ErrorOf(Bytes({0, 0, 8})), IsError(absl::StatusCode::kDataLoss, "magic", "got 3"));
  EXPECT_THAT(ErrorOf("\x89PNG"), IsError(absl::StatusCode::kDataLoss, "IDX", "got 89 50"));
  EXPECT_THAT(ErrorOf(Bytes({0, 0, 7, 1, 0, 0, 0, 1, 1})),
              IsError(absl::StatusCode::kDataLoss, "element type", "got 07"));
  EXPECT_THAT(ErrorOf(Bytes({0, 0, 8, 9})),
              IsError(absl::StatusCode::kDataLoss, "dimensions", "got 9"));
  EXPECT_THAT(ErrorOf(Bytes({0, 0, 8, 2, 0, 0, 0})),
              IsError(absl::StatusCode::kDataLoss, "dimensions", "got 3"));
  EXPECT_THAT(ErrorOf(SmallIdx().substr(0, 17)),
              IsError(absl::StatusCode::kDataLoss, "uint8[2,3]", "got 5"));
  for (const std::string& contents : {SmallIdx() + "x", Gzip(SmallIdx() + "x")}) {
    EXPECT_THAT(ErrorOf(contents),
                IsError(absl::StatusCode::kDataLoss, "after the data", "6 bytes"));
  }
}

TEST(IdxTest, DamagedGzipFileIsReported) {
  const std::string gzip = Gzip(SmallIdx());
  EXPECT_THAT(ErrorOf(gzip.substr(0, gzip.size() - 1)),
              IsError(absl::StatusCode::kDataLoss, "gzip", "cut short"));
  EXPECT_THAT(ErrorOf(gzip + "tail"), IsError(absl::StatusCode::kDataLoss, "gzip", "damaged"));
  std::string checksum = gzip;
  checksum[checksum.size() - 5] ^= 1;
  EXPECT_THAT(ErrorOf(checksum),
              IsError(absl::StatusCode::kDataLoss, "damaged", "incorrect data check"));
}

TEST(IdxTest, OverflowingDimensionsAreRejected) {
  EXPECT_THAT(
      ErrorOf(Bytes({0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255})),
      IsError(absl::StatusCode::kDataLoss, "overflows"));
}

TEST(IdxTest, DoesNotAllocateMoreThanTheFileCanFill) {
  const std::string header = Bytes({0, 0, 0x0E, 2, 0, 1, 0, 0, 0, 1, 0, 0});  // 32 GiB
  EXPECT_THAT(ErrorOf(header + "data"),
              IsError(absl::StatusCode::kDataLoss, "34359738368 bytes", "at most 16"));
  EXPECT_THAT(ErrorOf(Gzip(header + std::string(100'000, '\0'))),
              IsError(absl::StatusCode::kDataLoss, "34359738368 bytes", "at most"));
}

TEST(IdxTest, InflatesGzipBombOnlyUpToTheSizeInTheHeader) {
  // 64 MiB of zeros follow the 6 bytes that the header declares.
  std::string bomb = Gzip(SmallIdx() + std::string(size_t{64} << 20, '\0'));
  ASSERT_LT(bomb.size(), size_t{128} << 10);
  // The second half is damaged, but it must never be read.
  bomb.resize(bomb.size() / 2);
  EXPECT_THAT(ErrorOf(bomb), IsError(absl::StatusCode::kDataLoss, "after the data"));
}

}  // namespace
}  // namespace mirrorflow
