// SPDX-License-Identifier: Apache-2.0
#include "train/formats/text_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr size_t kChunk = size_t{1} << 16;

}  // namespace

absl::StatusOr<std::unique_ptr<TextReader>> TextReader::Open(absl::string_view path) {
  MF_ASSIGN_OR_RETURN(std::unique_ptr<GzipReader> file, GzipReader::Open(path));
  std::unique_ptr<TextReader> reader(new TextReader(std::move(file)));
  std::string start(kLongestByteOrderMark, '\0');
  MF_ASSIGN_OR_RETURN(const size_t got, reader->file_->Read(start.size(), start.data()));
  start.resize(got);
  reader->at_end_ = got < kLongestByteOrderMark;
  MF_RETURN_IF_ERROR(
      Annotate(reader->decoder_.Decode(start, reader->at_end_, &reader->text_), path));
  reader->is_utf8_ = reader->decoder_.is_utf8();
  return reader;
}

uint64_t TextReader::max_bytes() const {
  // Two bytes of UTF-16 become at most three bytes of UTF-8.
  return is_utf8_ ? file_->max_bytes() : file_->max_bytes() / 2 * 3 + 3;
}

absl::StatusOr<size_t> TextReader::Read(size_t size, char* out) {
  size_t done = 0;
  while (done < size) {
    if (begin_ == text_.size()) {
      if (at_end_) break;
      if (is_utf8_) {
        MF_ASSIGN_OR_RETURN(const size_t got, file_->Read(size - done, out + done));
        return done + got;
      }
      MF_RETURN_IF_ERROR(Refill());
      continue;
    }
    const size_t part = std::min(size - done, text_.size() - begin_);
    std::memcpy(out + done, text_.data() + begin_, part);
    begin_ += part;
    done += part;
  }
  return done;
}

absl::Status TextReader::Refill() {
  std::string bytes(kChunk, '\0');
  MF_ASSIGN_OR_RETURN(const size_t got, file_->Read(bytes.size(), bytes.data()));
  at_end_ = got < bytes.size();
  bytes.resize(got);
  text_.clear();
  begin_ = 0;
  return Annotate(decoder_.Decode(bytes, at_end_, &text_), path());
}

}  // namespace mirrorflow
