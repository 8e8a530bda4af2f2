// SPDX-License-Identifier: Apache-2.0
//
// Logs events that a user should know about although nothing failed: waits, skipped data and slower
// fallbacks. Errors are returned as absl::Status, not logged.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_LOG_H_
#define MIRRORFLOW_FRAMEWORK_CORE_LOG_H_

#include <functional>

#include "absl/base/log_severity.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Receives each logged line, without its severity and with control characters escaped. Must be
// thread-safe. Must not throw, wait for other threads or run steps, because the library may hold
// locks while it logs. Lines that the sink itself logs go to stderr. After kFatal, the process
// aborts.
using LogSink = std::function<void(absl::LogSeverity severity, absl::string_view line)>;

// Sends all later log lines of the process to `sink`, including those that the default sink would
// drop; null restores the default sink. A line that another thread is logging may still reach the
// previous sink.
//
// The default sink prints lines to stderr with the prefix "mirrorflow: ", "WARNING: ", "ERROR: " or
// "FATAL: ", or in the format that $MIRRORFLOW_LOG_FORMAT selects (`json`: objects with the time,
// the job and the worker). It drops lines below the severity in $MIRRORFLOW_MIN_LOG_LEVEL (0: info,
// 1: warning, 2: error; default 0). Both variables are read once.
void SetLogSink(LogSink sink);

// Logs one line. Thread-safe.
void Log(absl::LogSeverity severity, absl::string_view line);
inline void LogInfo(absl::string_view line) { Log(absl::LogSeverity::kInfo, line); }
inline void LogWarning(absl::string_view line) { Log(absl::LogSeverity::kWarning, line); }

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_LOG_H_
