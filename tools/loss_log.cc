// SPDX-License-Identifier: Apache-2.0
#include "tools/loss_log.h"

#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "framework/graph/attr_value.h"

namespace mirrorflow {

absl::StatusOr<LossLog> LossLog::Open(const std::string& path, int64_t step) {
  if (path.empty()) return LossLog(path, -1);
  std::string kept;
  if (step > 0) {
    constexpr uint64_t kMaxLogBytes = uint64_t{512} << 20;  // enough for twenty million steps
    absl::StatusOr<std::string> old = ReadWholeFile(path, kMaxLogBytes);
    if (absl::IsNotFound(old.status())) old = "";
    MF_RETURN_IF_ERROR(Annotate(old.status(), "cannot continue the log"));
    int64_t of_line;
    for (const absl::string_view line : absl::StrSplit(*old, '\n')) {
      const bool is_earlier =
          absl::SimpleAtoi(line.substr(0, line.find(' ')), &of_line) && of_line <= step;
      if (!is_earlier) break;
      absl::StrAppend(&kept, line, "\n");
    }
  }
  MF_RETURN_IF_ERROR(WriteFileAtomically(path, {kept}));
  MF_ASSIGN_OR_RETURN(const int fd, OpenForAppending(path));
  return LossLog(path, fd);
}

LossLog::~LossLog() {
  if (fd_ >= 0) close(fd_);
}

absl::Status LossLog::Add(int64_t step, float loss) {
  if (fd_ < 0) return absl::OkStatus();
  return AppendTo(fd_, path_, absl::StrCat(step, " ", FloatToString(loss), "\n"));
}

}  // namespace mirrorflow
