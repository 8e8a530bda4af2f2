// SPDX-License-Identifier: Apache-2.0
//
// Files: reading with sizes checked first, and writing so that a crash loses nothing. Every error
// begins with the path.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_FILE_H_
#define MIRRORFLOW_FRAMEWORK_CORE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mirrorflow {

// A regular file, open for reading.
class InputFile {
 public:
  // The system's error (NotFound, PermissionDenied, …), or FailedPrecondition for a directory, a
  // pipe or a device.
  static absl::StatusOr<InputFile> Open(absl::string_view path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

  // Fills `out` with the `size` bytes from `offset` on; DataLoss if the file does not have them.
  absl::Status Read(uint64_t offset, size_t size, void* out) const;

 private:
  InputFile(int fd, uint64_t size, std::string path)
      : fd_(fd), size_(size), path_(std::move(path)) {}

  int fd_;
  uint64_t size_;
  std::string path_;
};

// Writes the pieces, one behind the other, as the file `path`: under another name in the same
// directory, made durable and then renamed, so that after a crash at any moment `path` is the old
// file or the new one, never a part of it. A symbolic link at `path` is replaced, not followed. On
// an error `path` is as it was and nothing is left behind, except that an error of the last call
// (`fsync of the directory`) leaves the new file, which a power failure may still take back.
//
// `before_call` hears the name of each step before it is made; tests end the process there.
absl::Status WriteFileAtomically(
    absl::string_view path, absl::Span<const absl::string_view> pieces,
    absl::FunctionRef<void(absl::string_view)> before_call = [](absl::string_view) {});

// Whether WriteFileAtomically could write `path` now, found out by making and removing an empty
// temporary file: to be asked before the work whose result goes there.
absl::Status CheckWritable(absl::string_view path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_FILE_H_
