// SPDX-License-Identifier: Apache-2.0
//
// InMemoryFile: a file of given bytes that is never on disk, for readers that take a path.
#ifndef MIRRORFLOW_TESTS_FUZZ_IN_MEMORY_FILE_H_
#define MIRRORFLOW_TESTS_FUZZ_IN_MEMORY_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "framework/core/status.h"

namespace mirrorflow {

class InMemoryFile {
 public:
  InMemoryFile(const uint8_t* data, size_t size) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    MF_CHECK(fd_ >= 0 && write(fd_, data, size) == static_cast<ssize_t>(size));
  }
  ~InMemoryFile() { close(fd_); }
  InMemoryFile(const InMemoryFile&) = delete;
  InMemoryFile& operator=(const InMemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FUZZ_IN_MEMORY_FILE_H_
