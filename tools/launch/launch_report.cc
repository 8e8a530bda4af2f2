// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/launch_report.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace mirrorflow {
namespace {

std::string HowItEnded(const WorkerEnd& end) {
  if (end.process == 0) return "not started";
  return end.signal == 0 ? absl::StrCat("exit code ", end.exit_code)
                         : absl::StrCat("signal ", end.signal, " (", sigabbrev_np(end.signal), ")");
}

std::string WhereItRan(const WorkerEnd& end) {
  std::string text;
  if (end.process != 0) absl::StrAppend(&text, "pid ", end.process);
  if (!end.host.empty()) absl::StrAppend(&text, text.empty() ? "" : ", ", "host ", end.host);
  if (!end.gpu.empty()) absl::StrAppend(&text, text.empty() ? "" : ", ", "GPU ", end.gpu);
  return text.empty() ? "" : absl::StrCat(" (", text, ")");
}

}  // namespace

void TakeErrorFile(const std::string& text, WorkerEnd* end) {
  const nlohmann::json error = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!error.is_object()) return;
  const auto field = [&](const char* name) -> std::string {
    const auto found = error.find(name);
    return found != error.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string code = field("code"), message = field("message");
  if (message.empty()) return;
  end->message = code.empty() ? message : absl::StrCat(code, ": ", message);
  const auto cause = error.find("cause");
  end->is_victim = cause != error.end() && cause->is_string() && *cause == "another worker";
}

const WorkerEnd* FirstFailure(absl::Span<const WorkerEnd> ends) {
  const WorkerEnd* first = nullptr;
  for (const WorkerEnd& end : ends) {
    if (end.exit_code == 0) continue;
    // Its end is only what the launcher has asked for.
    if (end.asked_to_end && (end.signal != 0 || end.exit_code >= 128)) continue;
    const bool better = first == nullptr || (first->is_victim && !end.is_victim);
    if (better || (first->is_victim == end.is_victim && end.time < first->time)) first = &end;
  }
  return first;
}

std::string FailureReport(const WorkerEnd& first, absl::Span<const WorkerEnd> ends,
                          absl::Duration after, const std::deque<std::string>& last_lines) {
  const int64_t seconds = absl::ToInt64Seconds(after);
  std::string report = absl::StrFormat("mirrorflow launch: FAILED after %02d:%02d:%02d\n",
                                       seconds / 3600, seconds / 60 % 60, seconds % 60);
  absl::StrAppend(&report, "  first failure : worker ", first.worker, WhereItRan(first), " ",
                  HowItEnded(first), " at ",
                  absl::FormatTime("%H:%M:%E3S", first.time, absl::LocalTimeZone()), "\n");
  if (!first.message.empty()) absl::StrAppend(&report, "  message       : ", first.message, "\n");
  if (!last_lines.empty()) {
    absl::StrAppend(&report, "  last output   : (", last_lines.size(), " lines of worker ",
                    first.worker, ")\n");
    for (const std::string& line : last_lines) absl::StrAppend(&report, "    ", line, "\n");
  }
  std::vector<int> stopped;
  for (const WorkerEnd& end : ends) {
    if (end.asked_to_end && end.worker != first.worker) stopped.push_back(end.worker);
  }
  std::sort(stopped.begin(), stopped.end());
  if (!stopped.empty()) {
    absl::StrAppend(&report, "  stopped by us : worker", stopped.size() > 1 ? "s " : " ",
                    absl::StrJoin(stopped, ", "), " (SIGTERM)\n");
  }
  for (const WorkerEnd& end : ends) {
    if (end.asked_to_end || end.exit_code == 0 || end.worker == first.worker) continue;
    absl::StrAppend(&report, "  also failed   : worker ", end.worker, WhereItRan(end), " ",
                    HowItEnded(end), "\n");
  }
  return report;
}

}  // namespace mirrorflow
