// SPDX-License-Identifier: Apache-2.0
#include "framework/core/log_line.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "framework/core/json.h"
#include "framework/core/mutex.h"
#include "framework/core/terminal.h"

namespace mirrorflow {
namespace {

constexpr char kVariable[] = "MIRRORFLOW_LOG_FORMAT";

absl::StatusOr<LogLineFormat> ReadFormat() {
  const char* const text = std::getenv(kVariable);
  const absl::string_view name = text != nullptr ? text : "";
  if (name.empty() || name == "text") return LogLineFormat::kText;
  if (name == "plain") return LogLineFormat::kPlain;
  if (name == "json") return LogLineFormat::kJson;
  return absl::InvalidArgumentError(absl::StrCat(
      kVariable, ": unknown value; expected text, plain or json, got '", absl::CEscape(name), "'"));
}

// Formats a time as `2026-01-05T12:00:10.123456Z`. Does not allocate.
class TimeText {
 public:
  explicit TimeText(absl::Time time) {
    // absl::UTCTimeZone() would allocate on its first use.
    const time_t seconds = absl::ToTimeT(time);
    tm at = {};
    gmtime_r(&seconds, &at);
    const absl::Duration rest = time - absl::FromTimeT(seconds);
    std::snprintf(text_, sizeof(text_), "%04d-%02d-%02dT%02d:%02d:%02d.%06lldZ", at.tm_year + 1900,
                  at.tm_mon + 1, at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec,
                  static_cast<long long>(absl::ToInt64Microseconds(rest)));
  }
  const char* c_str() const { return text_; }

 private:
  char text_[64];
};

std::string JsonLabels(absl::string_view job, std::optional<int> worker) {
  return absl::StrCat(job.empty() ? "" : absl::StrCat("\"job\":", JsonQuote(job), ","),
                      worker.has_value() ? absl::StrCat("\"worker\":", *worker, ",") : "");
}

std::string TextLabels(absl::string_view job, std::optional<int> worker) {
  if (!worker.has_value()) return "";
  const std::string shown = ForTerminal(job);
  const bool is_word = shown.find_first_of(" =\"\\") == std::string::npos;
  return absl::StrCat(job.empty() ? "" : absl::StrCat(" job=", is_word ? shown : JsonQuote(shown)),
                      " worker=", *worker, " ");
}

// Writes a line and returns its length, like snprintf(). Does not allocate. `labels` come from
// JsonLabels, and `quoted` is a JSON string.
int FormatJson(char* line, size_t size, absl::Time time, std::optional<absl::LogSeverity> severity,
               const char* labels, std::optional<int> process, const char* quoted) {
  char process_field[32] = "";
  if (process.has_value()) {
    std::snprintf(process_field, sizeof(process_field), "\"process\":%d,", *process);
  }
  return std::snprintf(line, size, "{\"time\":\"%s\",%s%s%s%s%s\"message\":%s}",
                       TimeText(time).c_str(), severity.has_value() ? "\"severity\":\"" : "",
                       severity.has_value() ? absl::LogSeverityName(*severity) : "",
                       severity.has_value() ? "\"," : "", labels, process_field, quoted);
}

std::string JsonLine(absl::Time time, std::optional<absl::LogSeverity> severity,
                     const std::string& labels, std::optional<int> process,
                     absl::string_view message) {
  const std::string quoted = JsonQuote(absl::StrJoin(
      absl::StrSplit(message, '\n'), "\n",
      [](std::string* out, absl::string_view part) { absl::StrAppend(out, ForTerminal(part)); }));
  const auto format = [&](char* line, size_t size) {
    return FormatJson(line, size, time, severity, labels.c_str(), process, quoted.c_str());
  };
  std::string line(format(nullptr, 0), '\0');
  format(line.data(), line.size() + 1);
  return line;
}

// The labels of the process's lines, also as rendered for JSON and for text.
struct Labels {
  std::string job, json, text;
};
// Null if there are no labels. Read without a lock, because a process that runs out of memory may
// hold any lock.
std::atomic<const Labels*> current_labels{nullptr};

std::string LabelsInJson() {
  const Labels* const labels = current_labels;
  return labels != nullptr ? labels->json : "";
}

// Returns the time and the labels that a text line begins with, or an empty string if it has none.
std::string TextBeginning() {
  const Labels* const labels = current_labels;
  if (labels == nullptr || labels->text.empty() || ProcessLogFormat() != LogLineFormat::kText) {
    return "";
  }
  return absl::StrCat(TimeText(absl::Now()).c_str(), labels->text);
}

}  // namespace

LogLineFormat ProcessLogFormat() {
  static const LogLineFormat format = ReadFormat().value_or(LogLineFormat::kText);
  return format;
}

absl::Status CheckLogFormat() { return ReadFormat().status(); }

// All existing identities.
class LogIdentities {
 public:
  static LogIdentities& Get() {
    static auto* const identities = new LogIdentities();
    return *identities;
  }

  void Add(const LogIdentity* identity) {
    MutexLock lock(&mu_);
    all_.push_back(identity);
    Render();
  }
  void Remove(const LogIdentity* identity) {
    MutexLock lock(&mu_);
    std::erase(all_, identity);
    Render();
  }

 private:
  void Render() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (all_.empty()) {
      current_labels = nullptr;
      return;
    }
    std::string job = all_[0]->job_;
    std::optional<int> worker = all_[0]->worker_;
    for (const LogIdentity* const other : all_) {
      if (other->job_ != job) job.clear();
      if (other->worker_ != worker) worker.reset();
    }
    const auto is_equal = [&](const Labels& labels) {
      return labels.job == job && labels.text == TextLabels(job, worker) &&
             labels.json == JsonLabels(job, worker);
    };
    const auto found = std::find_if(rendered_.begin(), rendered_.end(), is_equal);
    current_labels = found != rendered_.end()
                         ? &*found
                         : &rendered_.emplace_back(
                               Labels{job, JsonLabels(job, worker), TextLabels(job, worker)});
  }

  Mutex mu_;
  std::vector<const LogIdentity*> all_ ABSL_GUARDED_BY(mu_);
  // Each distinct set of labels so far. None is freed, because another thread may be reading it.
  std::deque<Labels> rendered_ ABSL_GUARDED_BY(mu_);
};

LogIdentity::LogIdentity(std::string job, std::optional<int> worker)
    : job_(std::move(job)), worker_(worker) {
  LogIdentities::Get().Add(this);
}
LogIdentity::~LogIdentity() { LogIdentities::Get().Remove(this); }

std::string LogIdentity::Job() {
  const Labels* const labels = current_labels;
  return labels != nullptr ? labels->job : "";
}

void PrintErrorLine(absl::LogSeverity severity, absl::string_view line, absl::string_view prefix) {
  const std::string whole = ProcessLogFormat() == LogLineFormat::kJson
                                ? JsonLine(absl::Now(), severity, LabelsInJson(), getpid(), line)
                                : absl::StrCat(TextBeginning(), prefix, ForTerminal(line));
  std::fprintf(stderr, "%s\n", whole.c_str());
}

void PrintErrorReport(absl::LogSeverity severity, absl::string_view report) {
  report = absl::StripSuffix(report, "\n");
  const std::string whole = ProcessLogFormat() == LogLineFormat::kJson
                                ? JsonLine(absl::Now(), severity, LabelsInJson(), getpid(), report)
                                : OutputForTerminal(report);
  std::fprintf(stderr, "%s\n", whole.c_str());
}

void PrintErrorLiteral(const char* literal) {
  const Labels* const labels = current_labels;
  if (ProcessLogFormat() == LogLineFormat::kJson) {
    char quoted[1024], line[4096];
    std::snprintf(quoted, sizeof(quoted), "\"%s\"", literal);
    const auto format = [&](const char* json_labels) {
      return FormatJson(line, sizeof(line), absl::Now(), absl::LogSeverity::kError, json_labels,
                        getpid(), quoted);
    };
    const int size = format(labels != nullptr ? labels->json.c_str() : "");
    if (size >= static_cast<int>(sizeof(line))) format("");  // the job has a very long name
    std::fprintf(stderr, "%s\n", line);
    return;
  }
  const bool has_labels =
      labels != nullptr && !labels->text.empty() && ProcessLogFormat() == LogLineFormat::kText;
  std::fprintf(stderr, "%s%sERROR %s\n", has_labels ? TimeText(absl::Now()).c_str() : "",
               has_labels ? labels->text.c_str() : "", literal);
}

std::string JsonLogLine(const LogOrigin& origin, absl::string_view message) {
  return JsonLine(origin.time, origin.severity, JsonLabels(origin.job, origin.worker),
                  origin.process, message);
}

}  // namespace mirrorflow
