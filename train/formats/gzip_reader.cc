// SPDX-License-Identifier: Apache-2.0
#include "train/formats/gzip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {
constexpr size_t kChunk = size_t{1} << 16;
constexpr uint64_t kMaxDeflateRatio = 1032;  // zlib's technical notes, "maximum compression factor"
constexpr int kGzipOnly = 15 + 16;           // inflateInit2: largest window, a gzip header
constexpr int kZlibOnly = 15;                // a zlib header
}  // namespace

GzipReader::GzipReader(InputFile file) : file_(std::move(file)) {}

GzipReader::~GzipReader() {
  if (stream_ != nullptr) inflateEnd(stream_.get());
}

bool GzipReader::LooksLikeGzip(absl::string_view start) {
  return absl::StartsWith(start, "\x1f\x8b");
}

bool GzipReader::LooksLikeZlib(absl::string_view start) {
  if (start.size() < 2) return false;
  const unsigned method = static_cast<unsigned char>(start[0]);  // deflate, and the window size
  const unsigned flags = static_cast<unsigned char>(start[1]);
  return (method & 0x0f) == 8 && method >> 4 <= 7 && (method << 8 | flags) % 31 == 0;
}

absl::StatusOr<std::unique_ptr<GzipReader>> GzipReader::Open(absl::string_view path,
                                                             Format format) {
  MF_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  auto reader = std::unique_ptr<GzipReader>(new GzipReader(std::move(file)));
  if (format == Format::kPlain) return reader;
  if (format == Format::kPlainOrGzip) {
    char magic[2] = {};
    if (reader->file_.size() < sizeof(magic)) return reader;
    MF_RETURN_IF_ERROR(reader->file_.Read(0, sizeof(magic), magic));
    if (!LooksLikeGzip(absl::string_view(magic, sizeof(magic)))) return reader;
  }
  auto stream = std::make_unique<z_stream_s>();
  if (inflateInit2(stream.get(), format == Format::kZlib ? kZlibOnly : kGzipOnly) != Z_OK) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": not enough memory to inflate the file"));
  }
  reader->stream_ = std::move(stream);
  reader->input_.resize(kChunk);
  return reader;
}

uint64_t GzipReader::max_bytes() const {
  if (stream_ == nullptr) return file_.size();
  const uint64_t limit = std::numeric_limits<uint64_t>::max() / kMaxDeflateRatio;
  return std::min(file_.size(), limit) * kMaxDeflateRatio;
}

absl::StatusOr<size_t> GzipReader::Read(size_t size, void* out) {
  if (stream_ != nullptr) return Inflate(size, static_cast<unsigned char*>(out));
  const size_t n = std::min<uint64_t>(size, file_.size() - offset_);
  MF_RETURN_IF_ERROR(file_.Read(offset_, n, out));
  offset_ += n;
  return n;
}

absl::StatusOr<uint64_t> GzipReader::Skip(uint64_t size) {
  if (stream_ == nullptr) {
    const uint64_t skipped = std::min(size, file_.size() - offset_);
    offset_ += skipped;
    return skipped;
  }
  std::vector<unsigned char> ignored(std::min<uint64_t>(size, kChunk));
  uint64_t skipped = 0;
  while (skipped < size) {
    const size_t part = std::min<uint64_t>(size - skipped, ignored.size());
    MF_ASSIGN_OR_RETURN(const size_t got, Inflate(part, ignored.data()));
    skipped += got;
    if (got < part) break;
  }
  return skipped;
}

absl::Status GzipReader::Refill() {
  const size_t n = std::min<uint64_t>(input_.size(), file_.size() - offset_);
  MF_RETURN_IF_ERROR(file_.Read(offset_, n, input_.data()));
  offset_ += n;
  stream_->next_in = input_.data();
  stream_->avail_in = n;
  return absl::OkStatus();
}

absl::StatusOr<size_t> GzipReader::Inflate(size_t size, unsigned char* out) {
  size_t done = 0;
  while (done < size) {
    if (stream_->avail_in == 0) MF_RETURN_IF_ERROR(Refill());
    if (stream_->avail_in == 0) {  // the file ends here
      if (!in_member_) break;
      return Damaged("the gzip stream is cut short");
    }
    if (!in_member_) {  // another member begins; a stream can have several (RFC 1952)
      if (inflateReset(stream_.get()) != Z_OK) return Damaged("cannot inflate");
      in_member_ = true;
    }
    const size_t room = std::min(size - done, kChunk);
    stream_->next_out = out + done;
    stream_->avail_out = room;
    const int result = inflate(stream_.get(), Z_NO_FLUSH);
    done += room - stream_->avail_out;
    if (result == Z_STREAM_END) {
      in_member_ = false;
    } else if (result == Z_MEM_ERROR) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path(), ": not enough memory to inflate the file"));
    } else if (result != Z_OK) {
      return Damaged("the gzip stream is damaged");
    }
  }
  return done;
}

absl::Status GzipReader::Damaged(absl::string_view what) const {
  const char* detail = stream_->msg;
  return absl::DataLossError(absl::StrCat(path(), ": ", what, " near byte ",
                                          offset_ - stream_->avail_in, " of ", file_.size(),
                                          detail != nullptr ? absl::StrCat(": ", detail) : ""));
}

}  // namespace mirrorflow
