// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/files.h"
#include "tests/support/is_error.h"
#include "train/formats/tf_record.h"

namespace mirrorflow {
namespace {

std::string Contents(const std::string& path) {
  std::stringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// Returns the file that tf.io.TFRecordWriter writes for the records "hello" and "".
std::string HelloAndEmpty() {
  return Bytes({5, 0, 0, 0, 0, 0, 0, 0, 0xea, 0xb2, 0x04, 0x3e}) + "hello" +
         Bytes({0xbb, 0x1f, 0x1c, 0x19}) +
         Bytes({0, 0, 0, 0, 0, 0, 0, 0, 0x29, 0x03, 0x98, 0x07, 0xd8, 0xea, 0x82, 0xa2});
}

TEST(TfRecordWriterTest, WritesTheSameBytesAsTensorFlow) {
  const std::string path = WriteTemporary("bytes.tfrecord", "an older file, which is replaced");
  auto writer = TfRecordWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Write("hello").ok());
  ASSERT_TRUE((*writer)->Write("").ok());
  ASSERT_TRUE((*writer)->Flush().ok());
  EXPECT_EQ(Contents(path), HelloAndEmpty());
  ASSERT_TRUE((*writer)->Close().ok());
  EXPECT_EQ(Contents(path), HelloAndEmpty());
  EXPECT_THAT((*writer)->Write("x"),
              IsError(absl::StatusCode::kFailedPrecondition, path, "closed"));
  EXPECT_TRUE((*writer)->Close().ok());
}

TEST(TfRecordWriterTest, DestructorWritesAllRecords) {
  const std::string path = TemporaryPath("destructor.tfrecord");
  {
    auto writer = TfRecordWriter::Create(path);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Write("hello").ok());
    ASSERT_TRUE((*writer)->Write("").ok());
  }
  EXPECT_EQ(Contents(path), HelloAndEmpty());
}

TEST(TfRecordWriterTest, LongRecordsAreWrittenWithoutAFlush) {
  const std::string path = TemporaryPath("long.tfrecord");
  auto writer = TfRecordWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::string record(300'000, 'x');
  ASSERT_TRUE((*writer)->Write(record).ok());
  EXPECT_EQ(std::filesystem::file_size(path), 16 + record.size());
}

TEST(TfRecordWriterTest, ExistingFileAndMissingDirectoryAreErrors) {
  const std::string path = WriteTemporary("exists.tfrecord", "old");
  EXPECT_THAT(TfRecordWriter::Create(path, TfRecordWriter::Existing::kRefuse).status(),
              IsError(absl::StatusCode::kAlreadyExists, path, "File exists"));
  EXPECT_EQ(Contents(path), "old");
  const absl::Status status = TfRecordWriter::Create("/no/such/directory/file").status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kNotFound, "/no/such/directory/file: "));
}

TEST(TfRecordWriterTest, SymbolicLinkIsNotFollowed) {
  const std::string victim = WriteTemporary("victim", "old"), link = TemporaryPath("link.tfrecord");
  std::filesystem::create_symlink(victim, link);
  for (const auto existing :
       {TfRecordWriter::Existing::kReplace, TfRecordWriter::Existing::kRefuse}) {
    const bool replaces = existing == TfRecordWriter::Existing::kReplace;
    EXPECT_THAT(
        TfRecordWriter::Create(link, existing).status(),
        IsError(replaces ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kAlreadyExists,
                link));
  }
  EXPECT_EQ(Contents(victim), "old");
}

TEST(TfRecordWriterTest, FullDiskLeavesWholeRecordsAndErrorPersists) {
  const std::string path = TemporaryPath("full.tfrecord");
  auto writer = TfRecordWriter::Create(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Write("hello").ok());
  ASSERT_TRUE((*writer)->Write("").ok());
  ASSERT_TRUE((*writer)->Flush().ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 100;  // only part of the next record fits
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  signal(SIGXFSZ, SIG_IGN);
  ASSERT_TRUE((*writer)->Write(std::string(1000, 'x')).ok());
  const absl::Status status = (*writer)->Flush();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(status, IsError(absl::StatusCode::kResourceExhausted, path, "cannot write"));
  EXPECT_EQ(Contents(path), HelloAndEmpty());
  EXPECT_EQ((*writer)->Write("x"), status);
  EXPECT_EQ((*writer)->Close(), status);
  EXPECT_EQ(Contents(path), HelloAndEmpty());
}

}  // namespace
}  // namespace mirrorflow
