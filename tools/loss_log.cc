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
namespace {

// Enough for twenty million steps.
constexpr uint64_t kMaxLogBytes = uint64_t{512} << 20;

// Returns the contents of a file, or an empty string if the file does not exist.
absl::StatusOr<std::string> ContentsOf(const std::string& path) {
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (absl::IsNotFound(file.status())) return std::string();
  MF_RETURN_IF_ERROR(file.status());
  if (file->size() > kMaxLogBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": the log is too large to continue; ",
                                                     "expected at most ", kMaxLogBytes,
                                                     " bytes, got ", file->size()));
  }
  std::string text(file->size(), '\0');
  MF_RETURN_IF_ERROR(file->Read(0, text.size(), text.data()));
  return text;
}

}  // namespace

absl::StatusOr<LossLog> LossLog::Open(const std::string& path, int64_t step) {
  if (path.empty()) return LossLog(path, -1);
  std::string kept;
  if (step > 0) {
    MF_ASSIGN_OR_RETURN(const std::string old, ContentsOf(path));
    int64_t of_line;
    for (const absl::string_view line : absl::StrSplit(old, '\n')) {
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
