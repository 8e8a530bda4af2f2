// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_CAPTURED_LOG_H_
#define MIRRORFLOW_TESTS_SUPPORT_CAPTURED_LOG_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "framework/core/log.h"
#include "framework/core/mutex.h"

namespace mirrorflow {

// Captures the process's log lines, such as "WARNING: text", for its lifetime. Only one instance
// may exist at a time.
class CapturedLog {
 public:
  CapturedLog() {
    SetLogSink([this](absl::LogSeverity severity, absl::string_view line) {
      MutexLock lock(&mu_);
      lines_.push_back(absl::StrCat(absl::LogSeverityName(severity), ": ", line));
    });
  }
  // REQUIRES: no thread logs concurrently
  ~CapturedLog() { SetLogSink(nullptr); }
  CapturedLog(const CapturedLog&) = delete;

  std::vector<std::string> lines() const {
    MutexLock lock(&mu_);
    return lines_;
  }
  std::string text() const { return absl::StrJoin(lines(), "\n"); }

 private:
  mutable Mutex mu_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_CAPTURED_LOG_H_
