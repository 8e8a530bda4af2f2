// SPDX-License-Identifier: Apache-2.0
#include "train/formats/tf_record.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::string_view kFolder = "tests/references/formats/";

template <typename T>
std::string Little(T value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

std::string Header(uint64_t length) {
  return Little(length) + Little(MaskedCrc32c(Little(length)));
}

std::string Record(absl::string_view bytes) {
  return absl::StrCat(Header(bytes.size()), bytes, Little(MaskedCrc32c(bytes)));
}

struct Contents {
  std::vector<std::string> records;
  int64_t bad_records = 0;
  absl::Status status;
};

Contents ReadAll(const std::string& path, const TfRecordOptions& options = {}) {
  Contents contents;
  const auto reader = TfRecordReader::Open(path, options);
  if (!reader.ok()) return {{}, 0, reader.status()};
  for (std::string record;;) {
    const absl::StatusOr<bool> more = (*reader)->Next(&record);
    contents.bad_records = (*reader)->num_bad_records();
    contents.status = more.status();
    if (!more.ok()) {
      EXPECT_EQ((*reader)->Next(&record).status(), more.status());
    }
    if (!more.ok() || !*more) return contents;
    contents.records.push_back(record);
  }
}

std::string Write(absl::string_view contents) { return WriteTemporary("file.tfrecord", contents); }

// Returns the error that ends reading, without the path.
absl::Status ErrorOf(absl::string_view contents, const TfRecordOptions& options = {}) {
  absl::Status status = ReadAll(Write(contents), options).status;
  EXPECT_THAT(std::string(status.message()),
              StartsWith(absl::StrCat(TemporaryPath("file.tfrecord"), ": ")));
  return status;
}

TEST(TfRecordTest, MaskedChecksumMatchesTensorFlow) {
  EXPECT_EQ(Crc32c("foo"), 0xcfc4ae1du);
  EXPECT_EQ(MaskedCrc32c("foo"), (0xcfc4ae1du >> 15 | 0xcfc4ae1du << 17) + 0xa282ead8u);
}

TEST(TfRecordTest, ReadsFilesWrittenByTensorFlow) {
  const Contents plain = ReadAll(absl::StrCat(kFolder, "examples.tfrecord"));
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  ASSERT_EQ(plain.records.size(), 5u);
  EXPECT_THAT(plain.records[4], HasSubstr("example 4"));
  for (const char* name : {"examples_gzip.tfrecord", "examples_zlib.tfrecord"}) {
    const Contents compressed = ReadAll(absl::StrCat(kFolder, name));
    EXPECT_TRUE(compressed.status.ok()) << compressed.status;
    EXPECT_EQ(compressed.records, plain.records) << name;
  }
}

TEST(TfRecordTest, ReadsEmptyFileAndRecordsOfEverySize) {
  EXPECT_TRUE(ReadAll(Write("")).records.empty());
  EXPECT_TRUE(ReadAll(Write("")).status.ok());
  std::vector<std::string> records;
  std::string file;
  for (const size_t size : {0, 1, 5, 1000, 300'000, 3, 262'128, 5'000'000, 0, 7}) {
    records.push_back(std::string(size, static_cast<char>('a' + records.size())));
    file += Record(records.back());
  }
  for (const std::string& contents : {file, Gzip(file)}) {
    const Contents read = ReadAll(Write(contents));
    EXPECT_TRUE(read.status.ok()) << read.status;
    EXPECT_EQ(read.records, records);
  }
}

TEST(TfRecordTest, SkipsRecordsWithoutReadingThem) {
  std::string damaged = Record(std::string(1'000'000, 'b'));
  damaged[500'000] ^= 1;
  const std::string file = Record("a") + damaged + Record("c") + Record("d");
  for (const std::string& contents : {file, Gzip(file)}) {
    const auto reader = *TfRecordReader::Open(Write(contents));
    EXPECT_EQ(*reader->Skip(2), 2);
    EXPECT_EQ(reader->record(), 2);
    EXPECT_EQ(reader->offset(), Record("a").size() + damaged.size());
    std::string record;
    EXPECT_TRUE(*reader->Next(&record));
    EXPECT_EQ(record, "c");
    EXPECT_EQ(*reader->Skip(5), 1);
    EXPECT_FALSE(*reader->Next(&record));
  }
}

TEST(TfRecordTest, ErrorsNameRecordAndByte) {
  const std::string first = Record("first"), second = Record("second");
  std::string bad = first + second;
  bad[first.size()] ^= 1;
  EXPECT_THAT(ErrorOf(bad), IsError(absl::StatusCode::kDataLoss, "record 1", "byte 21:", "length"));
  bad = first + second;
  bad[first.size() + 12] ^= 1;
  EXPECT_THAT(ErrorOf(bad),
              IsError(absl::StatusCode::kDataLoss, "record 1", "byte 21:", "of the bytes"));
  EXPECT_THAT(ErrorOf(first + second.substr(0, 7)),
              IsError(absl::StatusCode::kDataLoss, "record 1", "byte 21:", "header", "got 7"));
  EXPECT_THAT(ErrorOf(first + second.substr(0, 15)),
              IsError(absl::StatusCode::kDataLoss, "record 1", "byte 21:", "expected 10", "got 3"));
  EXPECT_THAT(ErrorOf("\x89 and much more"),
              IsError(absl::StatusCode::kDataLoss, "record 0", "byte 0:", "checksum"));
  EXPECT_THAT(ErrorOf(Gzip(first + second).substr(0, 30)),
              IsError(absl::StatusCode::kDataLoss, "record 0", "byte 0:", "byte 30 of 30"));
  EXPECT_THAT(TfRecordReader::Open(TemporaryPath("none")).status(),
              IsError(absl::StatusCode::kNotFound, TemporaryPath("none"), "No such file"));
}

TEST(TfRecordTest, HugeLengthIsRejectedBeforeAllocation) {
  EXPECT_THAT(ErrorOf(Header(uint64_t{1} << 62)),
              IsError(absl::StatusCode::kDataLoss, "record 0", "byte 0:", "at most 1073741824",
                      "got 4611686018427387904"));
  EXPECT_THAT(ErrorOf(Record("12345"), {.max_record_bytes = 4}),
              IsError(absl::StatusCode::kDataLoss, "record 0", "byte 0:", "at most 4", "got 5"));
  // The header declares a gigabyte, which the file does not have.
  EXPECT_THAT(ErrorOf(Header(1 << 30)), IsError(absl::StatusCode::kDataLoss, "record 0",
                                                "byte 0:", "expected 1073741828", "got 0"));
}

TEST(TfRecordTest, FileTruncatedOrChangedAtAnyByteIsRejected) {
  const std::string file = Record("first") + Record("second");
  for (size_t n = 1; n < file.size(); ++n) {
    if (n == Record("first").size()) continue;
    EXPECT_EQ(ErrorOf(file.substr(0, n)).code(), absl::StatusCode::kDataLoss);
    std::string changed = file;
    changed[n - 1] ^= 0x10;
    EXPECT_EQ(ErrorOf(changed).code(), absl::StatusCode::kDataLoss);
  }
}

// A file starts with a record length, whose bytes may look like another format's magic number.
TEST(TfRecordTest, FirstLengthIsNotMistakenForMagicNumber) {
  const size_t gzip = 0x8b1f, gzip_of_deflate = 0x088b1f, tiff = 0x2a4949, zlib = 0x9c78;
  for (const size_t length : {gzip, gzip_of_deflate, tiff, zlib}) {
    const std::string record(length, 'x');
    const Contents read = ReadAll(Write(Record(record)));
    EXPECT_EQ(read.status, absl::OkStatus()) << length;
    EXPECT_THAT(read.records, ElementsAre(record));
    EXPECT_THAT(ErrorOf(Record(record).substr(0, length)),
                IsError(absl::StatusCode::kDataLoss, "cut short"));
    EXPECT_TRUE(TfRecordIndex::Build(Write(Record(record))).ok());
  }
  // The checksum of this length begins like the header of a safetensors file.
  EXPECT_THAT(ErrorOf(Record(std::string(21, 'x')).substr(0, 30)),
              IsError(absl::StatusCode::kDataLoss, "cut short"));
}

TEST(TfRecordTest, SkipsBadRecordsUpToLimit) {
  std::string bad = Record("bad");
  bad[12] ^= 1;
  const std::string file = bad + Record("a") + bad + Record("b");
  const Contents read = ReadAll(Write(file), {.skip_bad_records = 2});
  EXPECT_TRUE(read.status.ok()) << read.status;
  EXPECT_THAT(read.records, ElementsAre("a", "b"));
  EXPECT_EQ(read.bad_records, 2);
  EXPECT_THAT(ErrorOf(file, {.skip_bad_records = 1}),
              IsError(absl::StatusCode::kDataLoss, "record 2", "byte 36:", "of the bytes"));
}

TEST(TfRecordIndexTest, ReadsRecordsInAnyOrder) {
  std::string file;
  for (int i = 0; i < 100; ++i) file += Record(std::string(i, 'x'));
  const auto index = TfRecordIndex::Build(Write(file));
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_EQ(index->size(), 100);
  std::string record;
  for (const int i : {99, 0, 50, 50, 1}) {
    ASSERT_TRUE(index->ReadAt(i, &record).ok());
    EXPECT_EQ(record, std::string(i, 'x'));
  }
  EXPECT_THAT(index->ReadAt(100, &record),
              IsError(absl::StatusCode::kOutOfRange, "0 to 99", "got 100"));
  EXPECT_THAT(index->ReadAt(-1, &record),
              IsError(absl::StatusCode::kOutOfRange, "0 to 99", "got -1"));
  EXPECT_EQ(TfRecordIndex::Build(Write(""))->size(), 0);
}

TEST(TfRecordIndexTest, DamagedFileIsReported) {
  const auto error = [](absl::string_view contents) {
    return TfRecordIndex::Build(Write(contents)).status();
  };
  const std::string first = Record("first"), second = Record("second");
  EXPECT_THAT(error(first + second.substr(0, 15)),
              IsError(absl::StatusCode::kDataLoss, "record 1", "byte 21:", "expected 10", "got 3"));
  EXPECT_THAT(error(first + "x"),
              IsError(absl::StatusCode::kDataLoss, "record 1", "byte 21:", "cut short"));
  EXPECT_THAT(error(Header(uint64_t{1} << 62)),
              IsError(absl::StatusCode::kDataLoss, "the record", "too long"));
  EXPECT_THAT(error(Gzip(first)),
              IsError(absl::StatusCode::kInvalidArgument, "compressed", "plain TFRecord"));
  EXPECT_THAT(TfRecordIndex::Build(absl::StrCat(kFolder, "examples_zlib.tfrecord")).status(),
              IsError(absl::StatusCode::kInvalidArgument, "examples_zlib.tfrecord", "compressed"));
  std::string bad = first + second;
  bad[first.size() + 12] ^= 1;
  const auto index = TfRecordIndex::Build(Write(bad));
  ASSERT_TRUE(index.ok()) << index.status();
  std::string record;
  EXPECT_TRUE(index->ReadAt(0, &record).ok());
  EXPECT_THAT(index->ReadAt(1, &record),
              IsError(absl::StatusCode::kDataLoss, "record 1", "byte 21:", "of the bytes"));
}

}  // namespace
}  // namespace mirrorflow
