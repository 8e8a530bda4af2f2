// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/core/system_error.h"

namespace mirrorflow {

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, absl::string_view what,
                                            size_t max_bytes) {
  const auto failed = [&](absl::string_view action) {
    return SystemError(errno, absl::StrCat(path, ": cannot ", action, " the ", what));
  };
  // Open without blocking, because the path may name a pipe.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failed("open");
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat status;
  if (fstat(fd, &status) != 0) return failed("read");
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the ", what,
                                                   " is not a regular file; expected a file with "
                                                   "mode 0600, not a directory, a pipe or a "
                                                   "device"));
  }
  const bool is_own = status.st_uid == geteuid();
  if ((status.st_mode & 077) != 0 || !is_own) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: %s the %s; expected a file of user %d with mode 0600, got "
                        "mode %04o of user %d",
                        path, is_own ? "other users can access" : "another user owns", what,
                        geteuid(), status.st_mode & 07777, status.st_uid));
  }
  std::string contents(max_bytes + 1, '\0');
  size_t size = 0;
  while (size < contents.size()) {
    const ssize_t count = read(fd, contents.data() + size, contents.size() - size);
    if (count < 0) return failed("read");
    if (count == 0) break;
    size += count;
  }
  if (size > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": the ", what, " is too large; expected at most ", max_bytes, " bytes"));
  }
  contents.resize(size);
  return contents;
}

}  // namespace mirrorflow
