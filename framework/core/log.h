// SPDX-License-Identifier: Apache-2.0
//
// Log lines: what the library waits for, leaves out or goes without while it runs. Errors are
// returned as absl::Status and are not logged.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_LOG_H_
#define MIRRORFLOW_FRAMEWORK_CORE_LOG_H_

#include <functional>

#include "absl/base/log_severity.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Receives each line that is logged, without its severity and with control characters escaped. Must
// be thread-safe and must not throw. After kFatal, the process aborts.
using LogSink = std::function<void(absl::LogSeverity severity, absl::string_view line)>;

// Sends all later log lines of the process to `sink`, whatever their severity; null restores the
// default. That prints them to stderr, after "mirrorflow: ", "WARNING: ", "ERROR " or "FATAL: ", if
// their severity is at least $MIRRORFLOW_MIN_LOG_LEVEL (0: info, 1: warnings, 2: errors; default
// 0). A line that another thread is logging may still reach the previous sink.
void SetLogSink(LogSink sink);

// Logs one line. Thread-safe.
void Log(absl::LogSeverity severity, absl::string_view line);
void LogInfo(absl::string_view line);
void LogWarning(absl::string_view line);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_LOG_H_
