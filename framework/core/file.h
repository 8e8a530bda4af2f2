// SPDX-License-Identifier: Apache-2.0
//
// Reads files after checking their size, and writes them atomically, so that a crash never leaves a
// partial file. Every error message begins with the path.
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
  enum class Links { kFollow, kRefuse };
  // Opens the file. Returns the system's error (NotFound, PermissionDenied, …), or
  // FailedPrecondition for a directory, a pipe, a device or, with kRefuse, a symbolic link.
  static absl::StatusOr<InputFile> Open(absl::string_view path, Links links = Links::kFollow);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

  // Reads `size` bytes at `offset` into `out`. Returns DataLoss if the file ends earlier.
  absl::Status Read(uint64_t offset, size_t size, void* out) const;

 private:
  InputFile(int fd, uint64_t size, std::string path)
      : fd_(fd), size_(size), path_(std::move(path)) {}

  int fd_;
  uint64_t size_;
  std::string path_;
};

// Returns the contents of a regular file, or ResourceExhausted if it has more than `max_bytes`.
absl::StatusOr<std::string> ReadWholeFile(absl::string_view path, uint64_t max_bytes);

// Writes the concatenated pieces to the file `path`. The data goes to a temporary file in the same
// directory, which is made durable and then renamed. After a crash at any moment, `path` is either
// the old file or the complete new one. A symbolic link at `path` is replaced, not followed.
//
// On an error, `path` is unchanged and no temporary file remains, with one exception: if the last
// step (`fsync_directory`) fails, the new file stays, but a power failure can still revert it. The
// file's mode is 0666 less the umask.
//
// Calls `before_call` with each step's name (kWriteSteps) before that step, and stops if it returns
// an error. Failpoints use it.
inline constexpr absl::string_view kWriteSteps[] = {"open",  "reserve", "write",          "fsync",
                                                    "close", "rename",  "fsync_directory"};
absl::Status WriteFileAtomically(
    absl::string_view path, absl::Span<const absl::string_view> pieces,
    absl::FunctionRef<absl::Status(absl::string_view)> before_call = [](absl::string_view) {
      return absl::OkStatus();
    });

// How to treat a file that already exists; kRefuse returns AlreadyExists.
enum class ExistingFile { kAppend, kReplace, kRefuse };
struct AppendOptions {
  ExistingFile existing = ExistingFile::kAppend;
  InputFile::Links links = InputFile::Links::kRefuse;
  uint32_t mode = 0666;  // permissions of a new file, less the umask
};
// Opens a regular file to append to it, and returns its descriptor, which the caller must close.
// Returns the system's error, or FailedPrecondition for a directory, a pipe, a device or, with
// Links::kRefuse, a symbolic link. Never blocks, not even on a pipe.
absl::StatusOr<int> OpenForAppending(absl::string_view path, const AppendOptions& options = {});

// Appends `data` to a file that OpenForAppending opened. Uses a single system call unless space
// runs out, so an interrupted process leaves no partial lines. Returns ResourceExhausted, naming
// `path`, if the data does not fit.
absl::Status AppendTo(int fd, absl::string_view path, absl::string_view data);

// Checks that WriteFileAtomically can write `path`, by creating and removing an empty temporary
// file. Call it before long-running work whose result is written to `path`.
absl::Status CheckWritable(absl::string_view path);

// Opens the file for a worker's reports to its launcher, truncates it, and returns its descriptor,
// which the caller must close. The path comes from an environment variable, which `mirrorflow
// launch` sets to /proc/PID/fd/N, a link to a descriptor of the worker's supervisor. Returns
// FailedPrecondition for any other symbolic link, which another user may have created.
absl::StatusOr<int> OpenLauncherFile(absl::string_view path);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_FILE_H_
