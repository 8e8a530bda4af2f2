// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_LOSS_LOG_H_
#define MIRRORFLOW_TOOLS_LOSS_LOG_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace mirrorflow {

// A file with a line `step loss` for each training step. Each line is written before the next step,
// so a run that resumes from a checkpoint finds all lines up to that checkpoint.
class LossLog {
 public:
  // Keeps the lines of an existing file up to `step`, where training resumes, and drops the others.
  // An empty path disables the log. Returns ResourceExhausted if an existing file to continue is
  // larger than 512 MiB.
  static absl::StatusOr<LossLog> Open(const std::string& path, int64_t step);
  LossLog(LossLog&& other) noexcept
      : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  ~LossLog();

  absl::Status Add(int64_t step, float loss);

 private:
  LossLog(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LOSS_LOG_H_
