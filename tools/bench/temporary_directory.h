// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_BENCH_TEMPORARY_DIRECTORY_H_
#define MIRRORFLOW_TOOLS_BENCH_TEMPORARY_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace mirrorflow {

// A new directory that only this user can access; the destructor removes it with its contents. If
// it cannot be created, path() does not exist, and writing to it fails with an error that names it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const char* const parent = std::getenv("TMPDIR");
    path_ = std::string(parent != nullptr ? parent : "/tmp") + "/mirrorflow_bench_XXXXXX";
    made_ = mkdtemp(path_.data()) != nullptr;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_TEMPORARY_DIRECTORY_H_
