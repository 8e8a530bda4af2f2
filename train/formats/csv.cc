// SPDX-License-Identifier: Apache-2.0
#include "train/formats/csv.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "framework/core/buffer.h"
#include "framework/core/file_kind.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/core/text.h"
#include "framework/core/thread.h"
#include "framework/core/utf8.h"
#include "train/formats/csv_block.h"
#include "train/formats/csv_plan.h"
#include "train/formats/csv_scanner.h"
#include "train/formats/text_reader.h"

namespace mirrorflow {
namespace {

constexpr size_t kBlockBytes = size_t{4} << 20;  // how much text a thread parses at a time
constexpr size_t kMaxRecordBytes = size_t{16} << 20;

// The values of a column. The array grows by moving pages instead of copying bytes.
class GrowingColumn {
 public:
  absl::Status Append(const std::byte* data, size_t bytes) {
    if (bytes == 0) return absl::OkStatus();
    if (size_ + bytes > capacity_) {
      const size_t capacity = std::max(size_ + bytes, capacity_ + capacity_ / 2);
      MF_RETURN_IF_ERROR(Buffer::CheckAvailable(capacity - capacity_));
      void* const grown = std::realloc(data_.get(), capacity);
      if (grown == nullptr) return absl::ResourceExhaustedError("out of memory");
      (void)data_.release();
      data_.reset(static_cast<std::byte*>(grown));
      capacity_ = capacity;
    }
    std::memcpy(data_.get() + size_, data, bytes);
    size_ += bytes;
    return absl::OkStatus();
  }

  void MakeFloat() {
    const int64_t count = size_ / sizeof(int64_t);
    ConvertToFloat(data_.get(), count);
    size_ = count * sizeof(float);
  }

  absl::StatusOr<Tensor> Finish(DataType dtype, int64_t rows) {
    if (rows == 0) return Tensor::Allocate(dtype, {0});
    auto* const shrunk = static_cast<std::byte*>(std::realloc(data_.get(), size_));
    std::byte* const data = shrunk != nullptr ? shrunk : data_.get();
    (void)data_.release();
    return Tensor::View(dtype, {rows}, data, std::shared_ptr<std::byte>(data, std::free));
  }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> data_{nullptr, std::free};
  size_t size_ = 0, capacity_ = 0;
};

// Calls work(0), …, work(count - 1) concurrently, if the system can start the threads.
template <typename Work>
absl::Status InParallel(size_t count, const Work& work) {
  std::vector<absl::Status> results(count);
  auto run = [&](size_t i) {
    results[i] = CatchOutOfMemory([&] {
      work(i);
      return absl::OkStatus();
    });
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) {
    absl::StatusOr<std::thread> thread = StartThread("csv", [&run, i] { run(i); });
    if (thread.ok()) {
      threads.push_back(*std::move(thread));
    } else {
      run(i);
    }
  }
  run(0);
  for (std::thread& thread : threads) thread.join();
  for (absl::Status& result : results) MF_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

FileReader CsvFile() {
  static constexpr FileKind kKinds[] = {FileKind::kText, FileKind::kEmpty, FileKind::kGzip};
  return {"a CSV file", FileReader::Use::kData, kKinds};
}

class CsvReader {
 public:
  CsvReader(std::unique_ptr<TextReader> file, const CsvOptions& options)
      : file_(std::move(file)), options_(options) {}

  absl::StatusOr<CsvTable> Read() {
    MF_RETURN_IF_ERROR(Annotate(CheckCsvOptions(options_), file_->path()));
    MF_RETURN_IF_ERROR(Fill());
    MF_ASSIGN_OR_RETURN(const std::vector<std::string> names, ReadNames());
    absl::StatusOr<CsvPlan> plan = MakeCsvPlan(options_, names);
    if (!plan.ok()) {
      return absl::Status(
          plan.status().code(),
          absl::StrCat(file_->path(), ": ", plan.status().message(), delimiter_hint_));
    }
    plan_ = *std::move(plan);
    for (const CsvColumnPlan& column : plan_.columns) dtypes_.push_back(column.dtype);
    for (int i = 0; i < options_.num_threads; ++i) blocks_.emplace_back(plan_);
    storage_.resize(names.size());
    while (begin_ < end_ || held_ > 0) {
      MF_RETURN_IF_ERROR(ParseChunk());
      MF_RETURN_IF_ERROR(Fill());
    }
    return Finish();
  }

 private:
  // Moves the unread text to the front of the buffer and appends the next part of the file.
  absl::Status Fill();
  // Rejects a file of another format, judging by the start of its text.
  absl::Status CheckKind(absl::string_view start) const;
  // Reads the header, or counts the fields of the first record.
  absl::StatusOr<std::vector<std::string>> ReadNames();
  // Rejects a header that contains further lines because their line ends are not recognised.
  // `unquoted` is the text of its unquoted fields. Sets no_rows_.
  absl::Status CheckHeader(absl::string_view header, absl::string_view unquoted);
  // Sets delimiter_hint_ from the first record and the one at `next`.
  void FindOtherDelimiter(absl::string_view first, const char* next);
  absl::Status ParseChunk();
  absl::Status Append(CsvBlock& block);
  absl::StatusOr<CsvTable> Finish();
  absl::Status TooLong() const {
    return absl::DataLossError(absl::StrCat(file_->path(), ": line ", line_,
                                            ": the record has no end, or a quote is not closed; "
                                            "expected at most ",
                                            kMaxRecordBytes, " bytes"));
  }

  const std::unique_ptr<TextReader> file_;
  const CsvOptions& options_;
  std::vector<char> buffer_;
  const char* begin_ = nullptr;  // start of the unread text in the buffer
  const char* end_ = nullptr;
  bool at_end_ = false;            // the buffer contains the end of the file
  bool ends_with_newline_ = true;  // the last line of the file has a line end
  size_t held_ = 0;  // bytes held back at end_: a Ctrl-Z that may end the file, and what follows
  uint64_t offset_ = 0;  // text offset of the first byte that is not in the buffer yet
  int64_t line_ = 1;     // line number at begin_
  // Appended to errors if the file has one column, but would have several with another delimiter.
  std::string delimiter_hint_;
  absl::Status no_rows_;  // the error to return if the file ends after its header; may be OK
  CsvPlan plan_;
  std::vector<DataType> dtypes_;  // of the file's columns
  std::vector<CsvBlock> blocks_;  // one per thread
  std::vector<GrowingColumn> storage_;
  CsvTable table_;
};

absl::Status CsvReader::Fill() {
  const size_t kept = end_ - begin_ + held_;
  if (held_ > 0) buffer_[end_ - buffer_.data()] = kCtrlZ;  // restore it; a 0 byte has replaced it
  if (at_end_) return kept == 0 ? absl::OkStatus() : TooLong();
  if (kept > kMaxRecordBytes) return TooLong();
  // Request one byte more than the file can have, to detect its end.
  const size_t size =
      kept + std::min<uint64_t>(kBlockBytes * options_.num_threads, file_->max_bytes() + 1);
  // Leave room after the text for a missing line end, the 0 byte and CsvBlock's padding.
  const size_t padded = size + 2 + CsvBlock::kPadding;
  std::vector<char> larger;
  if (buffer_.size() < padded) larger.resize(padded);
  if (kept > 0) std::memmove(larger.empty() ? buffer_.data() : larger.data(), begin_, kept);
  if (!larger.empty()) buffer_.swap(larger);
  MF_ASSIGN_OR_RETURN(const size_t got, file_->Read(size - kept, buffer_.data() + kept));
  at_end_ = got < size - kept;
  const absl::string_view text(buffer_.data() + kept, got);
  if (offset_ == 0) MF_RETURN_IF_ERROR(Annotate(CheckKind(text), file_->path()));
  MF_RETURN_IF_ERROR(Annotate(CheckNoZeroByte(text, offset_), file_->path()));
  offset_ += got;
  const absl::string_view unread(buffer_.data(), kept + got);
  held_ = unread.size() - WithoutCtrlZ(unread).size();
  char* end = buffer_.data() + unread.size() - held_;
  if (at_end_) {
    held_ = 0;
    ends_with_newline_ = end == buffer_.data() || end[-1] == '\n' || end[-1] == '\r';
    if (end != buffer_.data() && end[-1] != '\n') *end++ = '\n';
  }
  *end = '\0';
  begin_ = buffer_.data();
  end_ = end;
  return absl::OkStatus();
}

absl::Status CsvReader::CheckKind(absl::string_view start) const {
  const uint64_t size =
      at_end_ ? start.size() : std::max<uint64_t>(start.size(), file_->max_bytes());
  return CheckFileKind(KindOfBytes(start.substr(0, kFileKindBytes), size), CsvFile());
}

absl::StatusOr<std::vector<std::string>> CsvReader::ReadNames() {
  CsvScanner scanner(options_.delimiter);
  while (begin_ < end_ && scanner.AfterBlankLine(begin_) != nullptr) {
    begin_ = scanner.AfterBlankLine(begin_);
    ++line_;
  }
  if (begin_ == end_) {
    return absl::DataLossError(absl::StrCat(file_->path(), ": the file is empty; expected ",
                                            options_.header ? "a header" : "a record",
                                            ", got no text"));
  }
  std::vector<std::string> names;
  std::string unquoted;
  CsvField field{{}, CsvField::End::kDelimiter, begin_};
  while (field.end == CsvField::End::kDelimiter) {
    const bool quoted = *field.next == '"';
    field = scanner.Next(field.next, end_);
    if (!quoted) absl::StrAppend(&unquoted, field.text);
    names.push_back(options_.header ? std::string(field.text) : absl::StrCat(names.size()));
  }
  if (field.end == CsvField::End::kCut) return TooLong();
  if (field.end == CsvField::End::kMalformed) {
    return absl::DataLossError(absl::StrCat(file_->path(), ": line ", line_,
                                            ": not CSV; expected a field of RFC 4180, got ",
                                            field.text));
  }
  const absl::string_view first(begin_, field.next - begin_);
  const auto is_binary = [&](char c) {
    return absl::ascii_iscntrl(c) && !absl::ascii_isspace(c) && c != options_.delimiter;
  };
  if (std::any_of(first.begin(), first.end(), is_binary)) {
    return absl::DataLossError(absl::StrCat(file_->path(), ": line ", line_,
                                            ": not text; expected ", "a record, got '",
                                            Printable(first.substr(0, 20)), "'"));
  }
  if (names.size() == 1) FindOtherDelimiter(first, field.next);
  if (options_.header) {
    begin_ = field.next;
    MF_RETURN_IF_ERROR(CheckHeader(first, unquoted));
    line_ += 1 + scanner.quoted_lines();
  }
  return names;
}

absl::Status CsvReader::CheckHeader(absl::string_view header, absl::string_view unquoted) {
  constexpr size_t kShown = 40;
  header = header.substr(0, header.find_last_not_of("\r\n") + 1);
  const auto error = [&](absl::string_view what, absl::string_view advice) {
    return absl::DataLossError(absl::StrCat(
        file_->path(), ": line ", line_, ": ", what,
        "; expected lines that end with \\n, \\r\\n or \\r, got '",
        Printable(header.substr(0, kShown)), header.size() > kShown ? "…" : "", "'", advice));
  };
  if (const std::string stray = StrayControl(unquoted); !stray.empty()) {
    return error(absl::StrCat(stray, " in the header, outside quotes"), "");
  }
  // A file can consist of only a header, even in Latin-1. But in some encodings, no line end is
  // recognised, so all lines look like one header, which must be rejected. NEL is the byte 0x85 in
  // Latin-1, but another character in other encodings.
  const bool ends_line = ends_with_newline_ || begin_ != end_;
  const bool has_nel = unquoted.find('\x85') != absl::string_view::npos;
  if (!IsUtf8(unquoted) && (!ends_line || has_nel)) {
    no_rows_ = error("no record follows the header, which is not UTF-8",
                     "; if the file has another encoding, or lines that end with NEL (0x85), "
                     "convert it to UTF-8 (with iconv -f IBM037 if it is EBCDIC)");
  }
  return absl::OkStatus();
}

void CsvReader::FindOtherDelimiter(absl::string_view first, const char* next) {
  const absl::string_view rest(next, end_ - next);
  const absl::string_view second = rest.substr(0, rest.find_first_of("\r\n"));
  for (const char c : {';', '\t', '|', ','}) {
    const auto fields = std::count(first.begin(), first.end(), c);
    if (c == options_.delimiter || fields == 0) continue;
    if (!second.empty() && std::count(second.begin(), second.end(), c) != fields) continue;
    delimiter_hint_ =
        absl::StrCat("; the file's delimiter may be '", Printable(absl::string_view(&c, 1)),
                     "' (CsvOptions::delimiter)");
    return;
  }
}

absl::Status CsvReader::ParseChunk() {
  // Split the chunk into blocks at line ends. The check below detects line ends inside quotes.
  const size_t size = end_ - begin_;
  std::vector<const char*> starts(blocks_.size() + 1, end_);
  starts[0] = begin_;
  for (size_t i = 1; i < blocks_.size(); ++i) {
    const char* const from = std::max(begin_ + size * i / blocks_.size(), starts[i - 1]);
    const void* const line = std::memchr(from, '\n', end_ - from);
    if (line != nullptr) starts[i] = static_cast<const char*>(line) + 1;
  }
  MF_RETURN_IF_ERROR(InParallel(blocks_.size(), [&](size_t i) {
    blocks_[i].Parse(starts[i], starts[i + 1], end_, dtypes_);
  }));
  for (size_t i = 0; i < blocks_.size(); ++i) {
    CsvBlock& block = blocks_[i];
    if (block.begin() != begin_) {
      // The previous block did not end where this block began, so this block began inside a record.
      MF_RETURN_IF_ERROR(
          InParallel(1, [&](size_t) { block.Parse(begin_, starts[i + 1], end_, dtypes_); }));
    }
    MF_RETURN_IF_ERROR(Append(block));
    begin_ = block.end();
    if (block.cut()) break;
  }
  return absl::OkStatus();
}

absl::Status CsvReader::Append(CsvBlock& block) {
  for (const CsvBlock::BadRecord& bad : block.bad_records()) {
    std::string what = absl::StrCat(file_->path(), ": line ", line_ + bad.line, ", ", bad.what);
    if (++table_.num_bad_records > options_.skip_bad_records) {
      if (options_.skip_bad_records > 0) {
        absl::StrAppend(&what, "; more than ", options_.skip_bad_records, " bad records");
      }
      absl::StrAppend(&what, delimiter_hint_);
      return absl::DataLossError(what);
    }
    if (table_.num_bad_records == 1) table_.first_bad_record = std::move(what);
  }
  for (const size_t i : plan_.selected) {
    if (block.dtype(i) == DT_FLOAT && dtypes_[i] == DT_INT64) {
      storage_[i].MakeFloat();
      dtypes_[i] = DT_FLOAT;
    } else if (block.dtype(i) == DT_INT64 && dtypes_[i] == DT_FLOAT) {
      block.MakeFloat(i);  // an earlier block has already made the column float
    }
    const size_t bytes = block.num_rows() * DataTypeSize(dtypes_[i]);
    MF_RETURN_IF_ERROR(storage_[i].Append(block.data(i), bytes));
  }
  table_.num_rows += block.num_rows();
  line_ += block.num_lines();
  return absl::OkStatus();
}

absl::StatusOr<CsvTable> CsvReader::Finish() {
  if (table_.num_rows == 0 && table_.num_bad_records == 0) MF_RETURN_IF_ERROR(no_rows_);
  for (const size_t i : plan_.selected) {
    MF_ASSIGN_OR_RETURN(Tensor column, storage_[i].Finish(dtypes_[i], table_.num_rows));
    if (plan_.columns[i].inferred && dtypes_[i] == DT_FLOAT) {
      // Remove the sign of -0. An integer 0 has no sign, so otherwise the sign would depend on
      // whether the column was still parsed as integers.
      for (float& value : column.flat<float>()) value += 0.0f;
    }
    table_.names.push_back(plan_.columns[i].name);
    table_.columns.push_back(std::move(column));
  }
  return std::move(table_);
}

}  // namespace

absl::StatusOr<CsvTable> ReadCsv(absl::string_view path, const CsvOptions& options) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<CsvTable> {
    MF_ASSIGN_OR_RETURN(auto file, ExplainFile(TextReader::Open(path), path, CsvFile()));
    return ExplainFile(CsvReader(std::move(file), options).Read(), path, CsvFile());
  });
}

}  // namespace mirrorflow
