// SPDX-License-Identifier: Apache-2.0
//
// GzipReader: reads a file sequentially, and inflates it if it is compressed. The file's first two
// bytes, not its name, identify it as gzip; the caller must say if it is a zlib stream. Inflates
// only the bytes that the caller requests.
#ifndef MIRRORFLOW_TRAIN_FORMATS_GZIP_READER_H_
#define MIRRORFLOW_TRAIN_FORMATS_GZIP_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/file.h"

struct z_stream_s;

namespace mirrorflow {

class GzipReader {
 public:
  // With kZlib, the file must be a zlib stream, which has no magic number (RFC 1950). With kPlain,
  // the file is read as it is, even if it begins like a gzip file.
  enum class Format { kPlainOrGzip, kPlain, kZlib };
  static absl::StatusOr<std::unique_ptr<GzipReader>> Open(absl::string_view path,
                                                          Format format = Format::kPlainOrGzip);
  static bool LooksLikeGzip(absl::string_view start);
  // Also returns true for about one in a thousand other files.
  static bool LooksLikeZlib(absl::string_view start);
  ~GzipReader();

  const std::string& path() const { return file_.path(); }
  // Returns an upper bound on the total number of bytes that Read() can return: the size of a plain
  // file, or 1032 times the size of a compressed file (deflate's limit). Callers check it before
  // they allocate memory.
  uint64_t max_bytes() const;

  // Reads the next `size` bytes into `out`. Returns how many bytes it read, which is fewer only at
  // the end. Returns DataLoss for a gzip stream that is damaged, truncated or followed by other
  // data.
  absl::StatusOr<size_t> Read(size_t size, void* out);
  // Skips the next `size` bytes. Returns how many bytes it skipped, which is fewer only at the end.
  // Does not read the skipped bytes of a plain file.
  absl::StatusOr<uint64_t> Skip(uint64_t size);

 private:
  explicit GzipReader(InputFile file);
  absl::Status Refill();
  absl::StatusOr<size_t> Inflate(size_t size, unsigned char* out);
  absl::Status Damaged(absl::string_view what) const;

  const InputFile file_;
  uint64_t offset_ = 0;                 // file offset of the next unread byte
  std::unique_ptr<z_stream_s> stream_;  // null for a plain file
  bool in_member_ = true;               // inside a member of the gzip file
  std::vector<unsigned char> input_;    // compressed bytes for stream_
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_GZIP_READER_H_
