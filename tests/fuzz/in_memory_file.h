// SPDX-License-Identifier: Apache-2.0
//
// InMemoryFile: a file with the given contents that is never written to disk, for readers that take
// a path. If the reader needs a certain file name ending, the path is a link with that ending in a
// folder that this process creates.
#ifndef MIRRORFLOW_TESTS_FUZZ_IN_MEMORY_FILE_H_
#define MIRRORFLOW_TESTS_FUZZ_IN_MEMORY_FILE_H_

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "framework/core/status.h"

namespace mirrorflow {

class InMemoryFile {
 public:
  InMemoryFile(const uint8_t* data, size_t size, const std::string& ending = "")
      : fd_(memfd_create("fuzz", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) {
    MF_CHECK(fd_ >= 0 && write(fd_, data, size) == static_cast<ssize_t>(size));
    if (ending.empty()) return;
    static const Folder folder;
    link_ = folder.path + "/file" + ending;
    MF_CHECK(symlink(path_.c_str(), link_.c_str()) == 0);
  }
  ~InMemoryFile() {
    close(fd_);
    if (!link_.empty()) unlink(link_.c_str());
  }
  InMemoryFile(const InMemoryFile&) = delete;
  InMemoryFile& operator=(const InMemoryFile&) = delete;

  const std::string& path() const { return link_.empty() ? path_ : link_; }

 private:
  // A temporary folder where only this user can create files.
  struct Folder {
    Folder() { MF_CHECK(mkdtemp(path.data()) != nullptr); }
    ~Folder() { rmdir(path.c_str()); }
    std::string path = "/tmp/mirrorflow_fuzz_XXXXXX";
  };

  const int fd_;
  const std::string path_;
  std::string link_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FUZZ_IN_MEMORY_FILE_H_
