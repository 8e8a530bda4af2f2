// SPDX-License-Identifier: Apache-2.0
#include "framework/core/log.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "framework/core/log_line.h"
#include "framework/core/mutex.h"
#include "framework/core/terminal.h"

namespace mirrorflow {
namespace {

// The process's sink. Static objects in other files may log before main begins and after it ends.
struct CurrentSink {
  Mutex mu;
  std::shared_ptr<const LogSink> sink ABSL_GUARDED_BY(mu);  // null: PrintToStderr
};

CurrentSink& Current() {
  static auto* const current = new CurrentSink();
  return *current;
}

int MinLogLevel() {
  const char* const text = std::getenv("MIRRORFLOW_MIN_LOG_LEVEL");
  int level = 0;
  return text != nullptr && absl::SimpleAtoi(text, &level) ? level : 0;
}

void PrintToStderr(absl::LogSeverity severity, absl::string_view line) {
  static constexpr const char* kPrefixes[] = {"mirrorflow: ", "WARNING: ", "ERROR: ", "FATAL: "};
  static const int min_level = MinLogLevel();
  const int level = static_cast<int>(absl::NormalizeLogSeverity(severity));
  if (level >= min_level || severity == absl::LogSeverity::kFatal)
    PrintErrorLine(absl::NormalizeLogSeverity(severity), line, kPrefixes[level]);
}

}  // namespace

void SetLogSink(LogSink sink) {
  auto shared = sink == nullptr ? nullptr : std::make_shared<const LogSink>(std::move(sink));
  MutexLock lock(&Current().mu);
  Current().sink.swap(shared);
}

void Log(absl::LogSeverity severity, absl::string_view line) {
  // A sink may log or fail a check itself, so it runs without the lock and is never re-entered.
  static thread_local bool in_sink = false;
  std::shared_ptr<const LogSink> sink;
  if (!in_sink) {
    MutexLock lock(&Current().mu);
    sink = Current().sink;
  }
  if (sink == nullptr) return PrintToStderr(severity, line);
  in_sink = true;
  (*sink)(severity, ForTerminal(line));
  in_sink = false;
}

}  // namespace mirrorflow
