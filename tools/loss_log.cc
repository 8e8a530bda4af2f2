// SPDX-License-Identifier: Apache-2.0
#include "tools/loss_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "framework/graph/attr_value.h"

namespace mirrorflow {

absl::StatusOr<LossLog> LossLog::Open(const std::string& path, int64_t step) {
  if (path.empty()) return LossLog(path, -1);
  std::string kept;
  if (step > 0) {
    std::ifstream old(path);
    int64_t of_line;
    for (std::string line; std::getline(old, line);) {
      const bool is_earlier =
          absl::SimpleAtoi(line.substr(0, line.find(' ')), &of_line) && of_line <= step;
      if (!is_earlier) break;
      absl::StrAppend(&kept, line, "\n");
    }
  }
  MF_RETURN_IF_ERROR(WriteFileAtomically(path, {kept}));
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot open"));
  return LossLog(path, fd);
}

LossLog::~LossLog() {
  if (fd_ >= 0) close(fd_);
}

absl::Status LossLog::Add(int64_t step, float loss) {
  if (fd_ < 0) return absl::OkStatus();
  const std::string line = absl::StrCat(step, " ", FloatToString(loss), "\n");
  // One call for a line: an interrupted process leaves whole lines.
  const ssize_t written = write(fd_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return absl::OkStatus();
  // Part of it fits on a disk that is then full.
  return absl::ErrnoToStatus(written < 0 ? errno : ENOSPC, absl::StrCat(path_, ": cannot write"));
}

}  // namespace mirrorflow
