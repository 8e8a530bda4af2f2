// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/error_report.h"

#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "framework/core/file.h"
#include "framework/core/hash.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/log_line.h"
#include "framework/core/mutex.h"
#include "framework/core/stack_trace.h"
#include "framework/runtime/failure.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kDetails[] = "mirrorflow/details";

struct Details {
  std::string collectives_json = "[]";
  std::string stack;
};

// The details of this process's latest errors, by key. A status holds only a key, because
// absl::Status prints its payloads. Equal details have the same key, so equal errors stay equal.
struct LatestDetails {
  static constexpr size_t kKept = 16;
  Mutex mu;
  std::deque<std::pair<std::string, Details>> entries ABSL_GUARDED_BY(mu);
};

LatestDetails& Latest() {
  static auto* const latest = new LatestDetails();
  return *latest;
}

Details DetailsOf(const absl::Status& status) {
  const auto key = status.GetPayload(kDetails);
  if (!key.has_value()) return Details();
  MutexLock lock(&Latest().mu);
  for (const auto& [of, details] : Latest().entries) {
    if (*key == of) return details;
  }
  return Details();
}

// Opens the file that $MIRRORFLOW_ERROR_FILE names; returns -1 if the variable is not set or the
// file cannot be opened.
int OpenErrorFile() {
  const char* const path = std::getenv("MIRRORFLOW_ERROR_FILE");
  if (path == nullptr || *path == '\0') return -1;
  const absl::StatusOr<int> file = OpenLauncherFile(path);
  if (file.ok()) return *file;
  LogWarning(absl::StrCat("MIRRORFLOW_ERROR_FILE: ", file.status().message()));
  return -1;
}

void WriteErrorFile(int file, const absl::Status& status, bool is_victim, absl::string_view stack) {
  const Failure where = FailureOf(status).value_or(Failure());
  const Details details = DetailsOf(status);
  Json json = {{"message", status.message()},
               {"code", absl::StatusCodeToString(status.code())},
               {"node", where.name},
               {"rank", where.rank},
               {"timestamp_us", absl::ToUnixMicros(absl::Now())}};
  if (is_victim) json["cause"] = "another worker";
  json["stack"] = stack.empty() ? StackText(details.stack) : std::string(stack);
  json["collectives"] = ParseJson<Json>(details.collectives_json).value_or(Json::array());
  AppendTo(file, "MIRRORFLOW_ERROR_FILE", JsonText(json) + "\n").IgnoreError();
  close(file);
}

}  // namespace

absl::Status WithDetails(absl::Status status, std::string collectives_json, std::string stack) {
  if (status.ok()) return status;
  // The process id is part of the key, because a status may come from another process.
  const std::string key =
      absl::StrCat(getpid(), "/", absl::Hex(StableHash(absl::StrCat(collectives_json, stack))));
  status.SetPayload(kDetails, absl::Cord(key));
  MutexLock lock(&Latest().mu);
  if (Latest().entries.size() == LatestDetails::kKept) Latest().entries.pop_front();
  Latest().entries.emplace_back(key, Details{std::move(collectives_json), std::move(stack)});
  return status;
}

void ReportError(const absl::Status& status, bool is_victim, absl::string_view stack) {
  const int file = OpenErrorFile();  // first: it can warn, and the error must be the last line
  const std::string name = absl::StatusCodeToString(status.code());
  const absl::string_view message = status.message();
  // A message can contain several errors of a file, one per line. Every printed line must name the
  // file.
  const absl::string_view where = message.substr(0, message.find(": "));
  bool first = true;
  for (absl::string_view line : absl::StrSplit(message, '\n', absl::SkipEmpty())) {
    PrintErrorLine(absl::LogSeverity::kError,
                   absl::StrCat(name, " ", first ? "" : where, first ? "" : ": ", line), "ERROR ");
    first = false;
  }
  if (file >= 0) WriteErrorFile(file, status, is_victim, stack);
}

void EndHangingProcess(const absl::Status& why, int exit_code) {
  const std::string stacks = StacksOfAllThreads();
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(stacks, "\n"), '\n')) {
    PrintErrorLine(absl::LogSeverity::kError, line);
  }
  ReportError(why, /*is_victim=*/false, stacks);
  _exit(exit_code);
}

}  // namespace mirrorflow
