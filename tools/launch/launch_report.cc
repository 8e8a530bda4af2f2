// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/launch_report.h"

#include <algorithm>
#include <csignal>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/core/json.h"
#include "framework/core/terminal.h"
#include "nlohmann/json.hpp"
#include "tools/flags/command_line.h"

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

std::string DurationText(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(duration);
  return absl::StrFormat("%02d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

// Returns whether the worker ended because the launcher asked it to.
bool IsAsAsked(const WorkerEnd& end) {
  return end.asked_to_end && (end.exit_code >= 128 || end.exit_code == kExitPreempted);
}

// Makes a message printable on a terminal. The message can contain all errors in a file, one per
// line.
std::string MessageText(absl::string_view message) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(message, '\n', absl::SkipEmpty())) {
    lines.push_back(ForTerminal(line));
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace

void TakeErrorFile(const std::string& text, WorkerEnd* end) {
  const absl::StatusOr<nlohmann::json> error = ParseJson(text);
  if (!error.ok() || !error->is_object()) return;
  const auto field = [&](const char* name) -> std::string {
    const auto found = error->find(name);
    return found != error->end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string code = field("code"), message = field("message");
  if (message.empty()) return;
  end->message = code.empty() ? message : absl::StrCat(code, ": ", message);
  end->is_victim = field("cause") == "another worker";
}

const WorkerEnd* FirstFailure(absl::Span<const WorkerEnd> ends) {
  const WorkerEnd* first = nullptr;
  for (const WorkerEnd& end : ends) {
    if (end.exit_code == 0 || IsAsAsked(end)) continue;
    const bool better = first == nullptr || (first->is_victim && !end.is_victim);
    if (better || (first->is_victim == end.is_victim && end.after < first->after)) first = &end;
  }
  return first;
}

std::string HostAtFault(absl::Span<const WorkerEnd> ends) {
  const WorkerEnd* const first = FirstFailure(ends);
  if (first == nullptr) return "";
  if (!first->is_victim) return first->host;
  std::set<std::string> hosts;
  for (const WorkerEnd& end : ends) {
    if (IsAsAsked(end)) hosts.insert(end.host);
  }
  return hosts.size() == 1 ? *hosts.begin() : "";
}

std::string EndText(const WorkerEnd& end) {
  constexpr size_t kMaxText = 1000;  // the text becomes an environment variable
  std::string text = absl::StrCat("worker ", end.worker,
                                  end.host.empty() ? "" : absl::StrCat(" on host ", end.host), ": ",
                                  HowItEnded(end));
  if (!end.message.empty()) absl::StrAppend(&text, ": ", end.message);
  if (text.size() > kMaxText) {
    size_t size = kMaxText;
    while ((text[size] & 0xC0) == 0x80) --size;  // do not split a UTF-8 character
    text.resize(size);
  }
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return text;
}

bool HasStopped(absl::Span<const WorkerEnd> ends, bool launcher_was_asked) {
  const WorkerEnd* const first = FirstFailure(ends);
  const auto is_stopped = [&](const WorkerEnd& end) {
    return end.exit_code == kExitPreempted ||
           (launcher_was_asked &&
            (end.exit_code == 128 + SIGTERM || (end.process == 0 && IsAsAsked(end))));
  };
  // A worker that is stopped before its first step does not tell the others, so they consider it
  // lost.
  const bool may_have_victims =
      launcher_was_asked || (first != nullptr && first->exit_code == kExitPreempted);
  const auto fits = [&](const WorkerEnd& end) {
    return end.exit_code == 0 || is_stopped(end) || (may_have_victims && end.is_victim);
  };
  if (ends.empty()) return launcher_was_asked;
  return absl::c_all_of(ends, fits) && absl::c_any_of(ends, is_stopped);
}

std::string StopReport(absl::Span<const WorkerEnd> ends, absl::Duration after) {
  const auto first = std::ranges::find(ends, kExitPreempted, &WorkerEnd::exit_code);
  const std::string who = first == ends.end()
                              ? ""
                              : absl::StrCat(", first worker ", first->worker, WhereItRan(*first),
                                             " with exit code ", first->exit_code);
  return absl::StrCat("mirrorflow launch: stopped after ", DurationText(after), who,
                      "; run the same command to continue\n");
}

std::string FailureReport(const WorkerEnd& first, absl::Span<const WorkerEnd> ends,
                          absl::Duration after, const std::deque<std::string>& last_lines) {
  std::string report = absl::StrCat("mirrorflow launch: FAILED after ", DurationText(after), "\n");
  absl::StrAppend(&report, "  first failure : worker ", first.worker, WhereItRan(first), " ",
                  HowItEnded(first), " at ",
                  absl::FormatTime("%H:%M:%E3S", first.time, absl::LocalTimeZone()), "\n");
  const auto victim = absl::c_find_if(ends, [](const WorkerEnd& end) { return end.is_victim; });
  if (!first.message.empty()) {
    absl::StrAppend(&report, "  message       : ", MessageText(first.message), "\n");
  } else if (victim != ends.end()) {
    absl::StrAppend(&report, absl::StrFormat("  worker %d says : ", victim->worker),
                    MessageText(victim->message), "\n");
  }
  if (!last_lines.empty()) {
    absl::StrAppend(&report, "  last output   : (", last_lines.size(), " lines of worker ",
                    first.worker, ")\n");
    for (const std::string& line : last_lines) {
      absl::StrAppend(&report, "    ", OutputForTerminal(line), "\n");
    }
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
