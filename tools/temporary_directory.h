// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_TEMPORARY_DIRECTORY_H_
#define MIRRORFLOW_TOOLS_TEMPORARY_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace mirrorflow {

// A new directory, which the destructor removes with all that is in it. An empty path if it could
// not be made.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/mirrorflow_bench_XXXXXX";
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_TEMPORARY_DIRECTORY_H_
