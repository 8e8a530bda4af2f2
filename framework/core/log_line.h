// SPDX-License-Identifier: Apache-2.0
//
// Writes messages to stderr, as text or as JSON for a log collector:
//
//   WARNING: 3 images left out
//   2026-01-05T12:00:10.123456Z job=mlp worker=3 WARNING: 3 images left out
//   {"time":"2026-01-05T12:00:10.123456Z","severity":"WARNING","job":"mlp","worker":3,…}
//
// The library calls Log (framework/core/log.h) instead, which lets a program redirect its lines.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_LOG_LINE_H_
#define MIRRORFLOW_FRAMEWORK_CORE_LOG_LINE_H_

#include <optional>
#include <string>

#include "absl/base/log_severity.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

enum class LogLineFormat {
  kText,   // starts with time, job and worker if the process is one of several workers
  kPlain,  // text without time, job and worker
  kJson,   // one object per line
};

// Returns the value of $MIRRORFLOW_LOG_FORMAT (`text`, `plain` or `json`), which is read once;
// kText if it is unset or invalid.
LogLineFormat ProcessLogFormat();
// Returns InvalidArgument if the variable has any other value.
absl::Status CheckLogFormat();

// Labels the process's lines with its job and worker number while this object exists. If several
// objects exist, because the process is in several clusters, lines have only the labels that all of
// them share.
class LogIdentity {
 public:
  // Omits an empty job and a missing worker.
  LogIdentity(std::string job, std::optional<int> worker);
  ~LogIdentity();
  LogIdentity(const LogIdentity&) = delete;
  LogIdentity& operator=(const LogIdentity&) = delete;

  // Returns the job that labels the process's lines, or an empty string if it is unknown.
  static std::string Job();

 private:
  friend class LogIdentities;
  const std::string job_;
  const std::optional<int> worker_;
};

// Prints one line, with control characters escaped. JSON lines omit `prefix`.
void PrintErrorLine(absl::LogSeverity severity, absl::string_view line,
                    absl::string_view prefix = "");
// Prints a report of several lines, each ending with \n; in JSON, as one object. Text keeps its
// colours (OutputForTerminal).
void PrintErrorReport(absl::LogSeverity severity, absl::string_view report);
// Prints `ERROR LITERAL` without allocating, for a process that has run out of memory. The literal
// must not contain characters that JSON escapes.
void PrintErrorLiteral(const char* literal);

// The origin of a JSON line. The line omits fields that are not set.
struct LogOrigin {
  absl::Time time;
  std::optional<absl::LogSeverity> severity = std::nullopt;
  absl::string_view job = "";
  std::optional<int> worker = std::nullopt;
  std::optional<int> process = std::nullopt;
};
// Returns a JSON line, without its \n. Control characters in the message other than \n are escaped,
// as in text; U+FFFD replaces invalid UTF-8.
std::string JsonLogLine(const LogOrigin& origin, absl::string_view message);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_LOG_LINE_H_
