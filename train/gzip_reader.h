// SPDX-License-Identifier: Apache-2.0
//
// GzipReader: the bytes of a file in order, inflated on the way if the file is gzip (known by its
// first two bytes, whatever its name). It inflates as much as it is asked for and no more.
#ifndef MIRRORFLOW_TRAIN_GZIP_READER_H_
#define MIRRORFLOW_TRAIN_GZIP_READER_H_

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
  static absl::StatusOr<std::unique_ptr<GzipReader>> Open(absl::string_view path);
  ~GzipReader();

  const std::string& path() const { return file_.path(); }
  // No more bytes than this can come: the size of a plain file, 1032 times that of a gzip file
  // (deflate's limit). To be looked at before memory is asked for.
  uint64_t max_bytes() const;

  // Fills `out` with the next `size` bytes and returns how many there were: fewer only at the end.
  // DataLoss for a gzip stream that is damaged, cut short or followed by something else.
  absl::StatusOr<size_t> Read(size_t size, void* out);

 private:
  explicit GzipReader(InputFile file);
  absl::Status Refill();
  absl::StatusOr<size_t> Inflate(size_t size, unsigned char* out);
  absl::Status Damaged(absl::string_view what) const;

  const InputFile file_;
  uint64_t offset_ = 0;                 // of what is not yet read from the file
  std::unique_ptr<z_stream_s> stream_;  // null for a plain file
  bool in_member_ = true;               // of the gzip file
  std::vector<unsigned char> input_;    // what stream_ inflates from
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_GZIP_READER_H_
