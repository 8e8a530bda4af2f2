// SPDX-License-Identifier: Apache-2.0
//
// TextReader: reads a text file, plain or gzip, sequentially, and returns it as UTF-8. A byte order
// mark identifies UTF-16, and is removed (TextDecoder). Line ends are unchanged.
#ifndef MIRRORFLOW_TRAIN_FORMATS_TEXT_READER_H_
#define MIRRORFLOW_TRAIN_FORMATS_TEXT_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/text.h"
#include "train/formats/gzip_reader.h"

namespace mirrorflow {

class TextReader {
 public:
  static absl::StatusOr<std::unique_ptr<TextReader>> Open(absl::string_view path);

  const std::string& path() const { return file_->path(); }
  // Returns an upper bound on the total number of bytes that Read() can return.
  uint64_t max_bytes() const;

  // Reads the next `size` bytes of text into `out`. Returns how many bytes it read, which is fewer
  // only at the end. Returns DataLoss for a damaged gzip stream or invalid UTF-16.
  absl::StatusOr<size_t> Read(size_t size, char* out);

 private:
  explicit TextReader(std::unique_ptr<GzipReader> file) : file_(std::move(file)) {}

  // Decodes the next part of the file into text_.
  absl::Status Refill();

  const std::unique_ptr<GzipReader> file_;
  bool is_utf8_ = true;
  TextDecoder decoder_;  // for UTF-16
  bool at_end_ = false;  // the whole UTF-16 file has been decoded
  std::string text_;     // decoded text; unread from begin_
  size_t begin_ = 0;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_TEXT_READER_H_
