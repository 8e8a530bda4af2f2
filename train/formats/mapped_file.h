// SPDX-License-Identifier: Apache-2.0
//
// MappedFile: maps a file into memory. The operating system reads only the parts that are accessed.
#ifndef MIRRORFLOW_TRAIN_FORMATS_MAPPED_FILE_H_
#define MIRRORFLOW_TRAIN_FORMATS_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/core/file.h"

namespace mirrorflow {

class MappedFile {
 public:
  // Maps the whole file, which must not be empty. Returns FailedPrecondition if another file has
  // replaced it since `file` was opened. The memory is read-only: writing to it kills the process,
  // and so does reading it after another program has truncated the file.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Map(const InputFile& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::byte* data() const { return data_; }

 private:
  MappedFile(std::byte* data, size_t size) : data_(data), size_(size) {}

  std::byte* const data_;
  const size_t size_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_FORMATS_MAPPED_FILE_H_
