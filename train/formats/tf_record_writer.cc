// SPDX-License-Identifier: Apache-2.0
#include "train/formats/tf_record_writer.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "train/formats/tf_record.h"

namespace mirrorflow {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kBufferBytes = size_t{1} << 16;
constexpr size_t kMaxTransfer = size_t{1} << 30;

template <typename T>
void AppendNumber(std::string* out, T number) {
  out->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TfRecordWriter>> TfRecordWriter::Create(absl::string_view path,
                                                                       Existing existing) {
  std::string name(path);
  const bool replaces = existing == Existing::kReplace;
  MF_ASSIGN_OR_RETURN(const int fd,
                      OpenForAppending(name, {.existing = replaces ? ExistingFile::kReplace
                                                                   : ExistingFile::kRefuse}));
  return std::unique_ptr<TfRecordWriter>(new TfRecordWriter(fd, std::move(name)));
}

TfRecordWriter::~TfRecordWriter() { Close().IgnoreError(); }

absl::Status TfRecordWriter::Write(absl::string_view record) {
  if (fd_ < 0 && status_.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": the file is closed"));
  }
  MF_RETURN_IF_ERROR(status_);
  const size_t header = buffer_.size();
  AppendNumber<uint64_t>(&buffer_, record.size());
  AppendNumber(&buffer_, MaskedCrc32c(absl::string_view(buffer_).substr(header, sizeof(uint64_t))));
  buffer_.append(record.data(), record.size());
  AppendNumber(&buffer_, MaskedCrc32c(record));
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status TfRecordWriter::Flush() {
  absl::string_view rest = buffer_;
  while (status_.ok() && !rest.empty()) {
    const ssize_t n = write(fd_, rest.data(), std::min(rest.size(), kMaxTransfer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      status_ = WriteError(n < 0 ? errno : EIO, absl::StrCat(path_, ": cannot write"));
      // A part of a record would make the file look damaged. If this fails, too, it is.
      (void)!ftruncate(fd_, static_cast<off_t>(written_));
      break;
    }
    rest.remove_prefix(n);
  }
  if (status_.ok()) written_ += buffer_.size();
  buffer_.clear();
  return status_;
}

absl::Status TfRecordWriter::Close() {
  if (fd_ < 0) return status_;
  Flush().IgnoreError();  // it stays in status_
  // Some file systems report a failed write only here.
  if (close(std::exchange(fd_, -1)) != 0 && status_.ok()) {
    status_ = WriteError(errno, absl::StrCat(path_, ": cannot close"));
  }
  return status_;
}

}  // namespace mirrorflow
