// SPDX-License-Identifier: Apache-2.0
//
// TfRecordWriter: writes a file of records (tf_record.h), uncompressed.
//
//   MF_ASSIGN_OR_RETURN(auto writer, TfRecordWriter::Create("train.tfrecord"));
//   for (const std::string& example : examples) MF_RETURN_IF_ERROR(writer->Write(example));
//   MF_RETURN_IF_ERROR(writer->Close());
#ifndef MIRRORFLOW_TRAIN_FORMATS_TF_RECORD_WRITER_H_
#define MIRRORFLOW_TRAIN_FORMATS_TF_RECORD_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Only one thread at a time may use a writer. After an error, which each later call returns, the
// file ends with its last whole record.
class TfRecordWriter {
 public:
  enum class Existing { kReplace, kRefuse };
  // Creates the file. Returns the system's error; AlreadyExists for a file that kRefuse finds, and
  // FailedPrecondition for a symbolic link.
  static absl::StatusOr<std::unique_ptr<TfRecordWriter>> Create(
      absl::string_view path, Existing existing = Existing::kReplace);
  ~TfRecordWriter();  // closes the file; Close() also returns the error
  TfRecordWriter(const TfRecordWriter&) = delete;
  TfRecordWriter& operator=(const TfRecordWriter&) = delete;

  const std::string& path() const { return path_; }

  // Adds a record, which may stay in memory until Flush() or Close().
  absl::Status Write(absl::string_view record);
  // Hands all records to the operating system. Other processes can then read them.
  absl::Status Flush();
  // Flushes and closes the file. Later calls of Write() return FailedPrecondition.
  absl::Status Close();

 private:
  TfRecordWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;  // -1 after Close()
  const std::string path_;
  absl::Status status_;
  std::string buffer_;    // whole records
  uint64_t written_ = 0;  // bytes of the file, whole records
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_TF_RECORD_WRITER_H_
