// SPDX-License-Identifier: Apache-2.0
#include "train/formats/tf_record.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/file.h"
#include "framework/core/file_kind.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace {

static_assert(std::endian::native == std::endian::little, "lengths are copied unchanged");

constexpr size_t kHeaderBytes = 12;  // length and its checksum
constexpr size_t kFooterBytes = 4;   // checksum of the bytes
constexpr size_t kChunk = size_t{256} << 10;

// Checks the header of a record of at most `max_bytes` bytes, and returns the record's length.
absl::StatusOr<uint64_t> LengthOf(absl::string_view header, uint64_t max_bytes) {
  uint64_t length;
  uint32_t crc;
  std::memcpy(&length, header.data(), sizeof(length));
  std::memcpy(&crc, header.data() + sizeof(length), sizeof(crc));
  const uint32_t expected = MaskedCrc32c(header.substr(0, sizeof(length)));
  if (crc != expected) {
    return absl::DataLossError(absl::StrCat("wrong length checksum; expected ", absl::Hex(expected),
                                            ", got ", absl::Hex(crc)));
  }
  if (length > max_bytes) {
    return absl::DataLossError(absl::StrCat("the record is too long; expected at most ", max_bytes,
                                            " bytes, got ", length));
  }
  return length;
}

absl::Status CheckBytes(absl::string_view bytes, absl::string_view footer) {
  uint32_t crc;
  std::memcpy(&crc, footer.data(), sizeof(crc));
  const uint32_t expected = MaskedCrc32c(bytes);
  if (crc == expected) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("wrong checksum of the bytes; expected ",
                                          absl::Hex(expected), ", got ", absl::Hex(crc)));
}

std::string PlaceOf(absl::string_view path, int64_t record, uint64_t offset) {
  return absl::StrCat(path, ": record ", record, " at byte ", offset);
}

// Adds the file's kind to the error of a bad first record if the file is not a TFRecord file.
absl::Status Explained(const absl::Status& error, absl::string_view path) {
  static constexpr FileKind kKinds[] = {FileKind::kTfRecord, FileKind::kGzip, FileKind::kEmpty};
  return ExplainFile(error, path, {"a TFRecord file", FileReader::Use::kData, kKinds});
}

absl::Status CutShort(uint64_t expected, uint64_t got) {
  return absl::DataLossError(
      absl::StrCat("the record is cut short; expected ", expected, " bytes, got ", got));
}

static_assert(std::endian::native == std::endian::little);

constexpr size_t kBufferBytes = size_t{1} << 16;
constexpr size_t kMaxTransfer = size_t{1} << 30;

template <typename T>
void AppendNumber(std::string* out, T number) {
  out->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TfRecordReader>> TfRecordReader::Open(
    absl::string_view path, const TfRecordOptions& options) {
  MF_RETURN_IF_ERROR(
      CheckNumbers("TFRecord", {{"skip_bad_records", options.skip_bad_records, kNotNegative}}));
  // The first bytes of a plain file are a length, which may look like the start of a gzip file, or
  // of a zlib stream, which has no magic number. But the length has a checksum.
  const absl::StatusOr<InputFile> peek = InputFile::Open(path);
  if (!peek.ok()) return Explained(peek.status(), path);
  std::string start(std::min<uint64_t>(kHeaderBytes, peek->size()), '\0');
  MF_RETURN_IF_ERROR(peek->Read(0, start.size(), start.data()));
  using Format = GzipReader::Format;
  const bool is_plain = start.size() == kHeaderBytes && LengthOf(start, ~uint64_t{0}).ok();
  const Format format = is_plain                           ? Format::kPlain
                        : GzipReader::LooksLikeZlib(start) ? Format::kZlib
                                                           : Format::kPlainOrGzip;
  MF_ASSIGN_OR_RETURN(std::unique_ptr<GzipReader> file, GzipReader::Open(path, format));
  return std::unique_ptr<TfRecordReader>(new TfRecordReader(std::move(file), options));
}

absl::Status TfRecordReader::Fill() {
  buffer_.resize(kChunk);
  begin_ = end_ = 0;
  MF_ASSIGN_OR_RETURN(end_, file_->Read(kChunk, buffer_.data()));
  return absl::OkStatus();
}

absl::StatusOr<size_t> TfRecordReader::Take(size_t size, char* out) {
  size_t taken = 0;
  while (taken < size) {
    if (begin_ == end_ && size - taken >= kChunk) {
      MF_ASSIGN_OR_RETURN(const size_t got, file_->Read(size - taken, out + taken));
      return taken + got;
    }
    if (begin_ == end_) MF_RETURN_IF_ERROR(Fill());
    if (begin_ == end_) break;
    const size_t part = std::min(size - taken, end_ - begin_);
    std::memcpy(out + taken, buffer_.data() + begin_, part);
    begin_ += part;
    taken += part;
  }
  return taken;
}

absl::StatusOr<bool> TfRecordReader::NextLength(uint64_t* length) {
  char header[kHeaderBytes];
  absl::StatusOr<size_t> got = Take(kHeaderBytes, header);
  if (!got.ok()) return Bad(got.status());
  if (*got == 0) return false;
  if (*got < kHeaderBytes) {
    return Bad(absl::DataLossError(absl::StrCat("the record's header is cut short; expected ",
                                                kHeaderBytes, " bytes, got ", *got)));
  }
  absl::StatusOr<uint64_t> checked =
      LengthOf(absl::string_view(header, kHeaderBytes), options_.max_record_bytes);
  if (!checked.ok()) return Bad(checked.status());
  *length = *checked;
  return true;
}

absl::StatusOr<bool> TfRecordReader::Next(std::string* record) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<bool> {
    MF_RETURN_IF_ERROR(failed_);
    while (true) {
      uint64_t length;
      MF_ASSIGN_OR_RETURN(const bool more, NextLength(&length));
      if (!more) return false;
      // Grow the memory as bytes are actually read, instead of trusting the declared length.
      const size_t size = length + kFooterBytes;
      for (size_t done = 0; done < size;) {
        const size_t part = std::min(size - done, std::max(done, 4 * kChunk));
        record->resize(done + part);
        absl::StatusOr<size_t> got = Take(part, record->data() + done);
        if (!got.ok()) return Bad(got.status());
        done += *got;
        if (*got < part) return Bad(CutShort(size, done));
      }
      const absl::string_view bytes(*record);
      const absl::Status valid = CheckBytes(bytes.substr(0, length), bytes.substr(length));
      if (!valid.ok() && num_bad_records_ == options_.skip_bad_records) return Bad(valid);
      ++record_;
      offset_ += kHeaderBytes + size;
      if (valid.ok()) {
        record->resize(length);
        return true;
      }
      ++num_bad_records_;
    }
  });
}

absl::StatusOr<int64_t> TfRecordReader::Skip(int64_t count) {
  MF_RETURN_IF_ERROR(failed_);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t length;
    MF_ASSIGN_OR_RETURN(const bool more, NextLength(&length));
    if (!more) return i;
    const uint64_t size = length + kFooterBytes;
    uint64_t skipped = std::min<uint64_t>(size, end_ - begin_);
    begin_ += skipped;
    if (skipped < size) {
      absl::StatusOr<uint64_t> rest = file_->Skip(size - skipped);
      if (!rest.ok()) return Bad(rest.status());
      skipped += *rest;
    }
    if (skipped < size) return Bad(CutShort(size, skipped));
    ++record_;
    offset_ += kHeaderBytes + size;
  }
  return std::max<int64_t>(count, 0);
}

// Adds the record's index and offset to an error, and makes every later call return the error.
absl::Status TfRecordReader::Bad(const absl::Status& status) {
  if (failed_.ok()) {
    const std::string path = absl::StrCat(file_->path(), ": ");
    const absl::Status without_path(status.code(), absl::StripPrefix(status.message(), path));
    failed_ = Annotate(without_path, PlaceOf(file_->path(), record_, offset_));
    if (record_ == 0) failed_ = Explained(failed_, file_->path());
  }
  return failed_;
}

absl::StatusOr<TfRecordIndex> TfRecordIndex::Build(absl::string_view path,
                                                   const TfRecordOptions& options) {
  MF_RETURN_IF_ERROR(
      CheckNumbers("TFRecord", {{"skip_bad_records", options.skip_bad_records, kNotNegative}}));
  absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return Explained(file.status(), path);
  TfRecordIndex index(*std::move(file));
  const InputFile& in = index.file_;
  uint64_t offset = 0;
  while (true) {
    index.offsets_.push_back(offset);
    const uint64_t left = in.size() - offset;
    if (left == 0) return index;
    auto at = [&](const absl::Status& status) {
      const int64_t record = static_cast<int64_t>(index.offsets_.size()) - 1;
      const absl::Status error = Annotate(status, PlaceOf(path, record, offset));
      return record == 0 ? Explained(error, path) : error;
    };
    if (left < kHeaderBytes) return at(CutShort(kHeaderBytes, left));
    char header[kHeaderBytes];
    MF_RETURN_IF_ERROR(in.Read(offset, kHeaderBytes, header));
    const absl::string_view bytes(header, kHeaderBytes);
    const absl::StatusOr<uint64_t> length = LengthOf(bytes, options.max_record_bytes);
    if (!length.ok() && offset == 0 &&
        (GzipReader::LooksLikeGzip(bytes) || GzipReader::LooksLikeZlib(bytes))) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": a compressed file cannot be indexed; expected a plain TFRecord file"));
    }
    if (!length.ok()) return at(length.status());
    const uint64_t size = *length + kFooterBytes;
    if (size > left - kHeaderBytes) return at(CutShort(size, left - kHeaderBytes));
    offset += kHeaderBytes + size;
  }
}

absl::Status TfRecordIndex::ReadAt(int64_t i, std::string* record) const {
  if (i < 0 || i >= size()) {
    return absl::OutOfRangeError(
        absl::StrCat(file_.path(), ": no such record; expected 0 to ", size() - 1, ", got ", i));
  }
  return CatchOutOfMemory([&] {
    const size_t size = offsets_[i + 1] - offsets_[i] - kHeaderBytes;
    record->resize(size);
    MF_RETURN_IF_ERROR(file_.Read(offsets_[i] + kHeaderBytes, size, record->data()));
    const absl::string_view bytes(*record);
    const size_t length = size - kFooterBytes;
    const absl::Status valid = CheckBytes(bytes.substr(0, length), bytes.substr(length));
    record->resize(length);
    if (valid.ok()) return valid;
    return Annotate(valid, PlaceOf(file_.path(), i, offsets_[i]));
  });
}

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
      // Remove an incomplete record, which would make the file look damaged. If this also fails,
      // the file stays damaged.
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
  Flush().IgnoreError();  // status_ keeps the error
  // Some file systems report a failed write only on close.
  if (close(std::exchange(fd_, -1)) != 0 && status_.ok()) {
    status_ = WriteError(errno, absl::StrCat(path_, ": cannot close"));
  }
  return status_;
}

}  // namespace mirrorflow
