// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes TFRecord files, sequences of records of arbitrary bytes (little-endian):
//   length: uint64 | masked CRC-32C of the length: uint32 | the bytes | masked CRC of the bytes
// Files are plain, or compressed with gzip or zlib. All checksums are verified, except those of
// skipped bytes.
#ifndef MIRRORFLOW_TRAIN_FORMATS_TF_RECORD_H_
#define MIRRORFLOW_TRAIN_FORMATS_TF_RECORD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/crc32c.h"
#include "framework/core/file.h"
#include "train/formats/gzip_reader.h"

namespace mirrorflow {

struct TfRecordOptions {
  // Skips up to this many records whose bytes have the wrong checksum. A damaged length always ends
  // the file, because the next record cannot be found.
  int64_t skip_bad_records = 0;
  // A longer record is an error, detected before memory is allocated.
  uint64_t max_record_bytes = uint64_t{1} << 30;
};

// Reads the records in order. If the file is damaged, returns DataLoss, `path: record 3 at byte
// 120: what; expected …, got …`. Records and bytes count from 0. In a compressed file, the byte is
// an offset in the inflated contents.
class TfRecordReader {
 public:
  static absl::StatusOr<std::unique_ptr<TfRecordReader>> Open(absl::string_view path,
                                                              const TfRecordOptions& options = {});

  // Reads the next record. Returns false at the end of the file. Reuses the string's memory.
  absl::StatusOr<bool> Next(std::string* record);
  // Skips `count` records. Returns how many it skipped, which is fewer only at the end. Reads only
  // the lengths of the skipped records of a plain file.
  absl::StatusOr<int64_t> Skip(int64_t count);

  // The index and the byte offset of the next record.
  int64_t record() const { return record_; }
  uint64_t offset() const { return offset_; }
  int64_t num_bad_records() const { return num_bad_records_; }

 private:
  TfRecordReader(std::unique_ptr<GzipReader> file, const TfRecordOptions& options)
      : file_(std::move(file)), options_(options) {}

  absl::Status Fill();
  // Copies the next `size` bytes. Returns how many it copied, which is fewer only at the end.
  absl::StatusOr<size_t> Take(size_t size, char* out);
  absl::StatusOr<bool> NextLength(uint64_t* length);
  absl::Status Bad(const absl::Status& status);

  const std::unique_ptr<GzipReader> file_;
  const TfRecordOptions options_;
  std::vector<char> buffer_;  // unread in [begin_, end_)
  size_t begin_ = 0, end_ = 0;
  uint64_t offset_ = 0;
  int64_t record_ = 0;
  int64_t num_bad_records_ = 0;
  absl::Status failed_;  // the first error
};

// An index of a plain file's records, for reading them in any order.
class TfRecordIndex {
 public:
  // Reads the lengths of all records and verifies their checksums, without reading the records.
  static absl::StatusOr<TfRecordIndex> Build(absl::string_view path,
                                             const TfRecordOptions& options = {});

  int64_t size() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  // Reads record `i`. Returns OutOfRange unless it is in [0, size()). Thread-safe.
  absl::Status ReadAt(int64_t i, std::string* record) const;

 private:
  explicit TfRecordIndex(InputFile file) : file_(std::move(file)) {}

  InputFile file_;
  std::vector<uint64_t> offsets_;  // the offset of each record, and the file size
};

// Writes an uncompressed file of records:
//
//   MF_ASSIGN_OR_RETURN(auto writer, TfRecordWriter::Create("train.tfrecord"));
//   for (const std::string& example : examples) MF_RETURN_IF_ERROR(writer->Write(example));
//   MF_RETURN_IF_ERROR(writer->Close());
//
// Not thread-safe. After an error, the file ends with its last complete record, and each later call
// returns the same error.
class TfRecordWriter {
 public:
  enum class Existing { kReplace, kRefuse };
  // Creates the file. Returns AlreadyExists if kRefuse finds a file, FailedPrecondition for a
  // symbolic link, and otherwise the system's error if the file cannot be created.
  static absl::StatusOr<std::unique_ptr<TfRecordWriter>> Create(
      absl::string_view path, Existing existing = Existing::kReplace);
  ~TfRecordWriter();  // closes the file, and ignores errors, which Close() returns
  TfRecordWriter(const TfRecordWriter&) = delete;
  TfRecordWriter& operator=(const TfRecordWriter&) = delete;

  const std::string& path() const { return path_; }

  // Writes a record, which can stay in memory until Flush() or Close().
  absl::Status Write(absl::string_view record);
  // Passes all records to the operating system, so other processes can read them.
  absl::Status Flush();
  // Flushes and closes the file. Later calls of Write() return FailedPrecondition.
  absl::Status Close();

 private:
  TfRecordWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;  // -1 after Close()
  const std::string path_;
  absl::Status status_;
  std::string buffer_;    // complete records
  uint64_t written_ = 0;  // bytes of complete records in the file
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_TF_RECORD_H_
