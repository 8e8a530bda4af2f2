// SPDX-License-Identifier: Apache-2.0
#include "train/formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"

namespace mirrorflow {

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Map(const InputFile& file) {
  const int fd = open(file.path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return SystemError(errno, absl::StrCat(file.path(), ": cannot open"));
  struct stat info;
  const bool same = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                    static_cast<uint64_t>(info.st_size) == file.size();
  void* data = MAP_FAILED;
  if (same) data = mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (!same) {
    return absl::FailedPreconditionError(
        absl::StrCat(file.path(), ": another file has replaced it while it was opened; expected ",
                     file.size(), " unchanged bytes"));
  }
  if (data == MAP_FAILED) {
    return SystemError(error, absl::StrCat(file.path(), ": cannot map"));
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(static_cast<std::byte*>(data), file.size()));
}

MappedFile::~MappedFile() { munmap(data_, size_); }

}  // namespace mirrorflow
