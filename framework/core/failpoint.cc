// SPDX-License-Identifier: Apache-2.0
#include "framework/core/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/core/log.h"
#include "framework/core/mutex.h"
#include "framework/core/names.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr char kVariable[] = "MIRRORFLOW_FAILPOINTS";
constexpr absl::string_view kActions[] = {"delay", "error", "exit", "kill", "hang", "stop"};
constexpr absl::Duration kDelay = absl::Milliseconds(100);

std::atomic<int> this_worker{0};

// Failpoints register during static initialisation, in any order.
struct Registry {
  Mutex mu;
  std::vector<std::string> names ABSL_GUARDED_BY(mu);
};
Registry& TheRegistry() {
  static Registry* const registry = new Registry();
  return *registry;
}

// Drops `mark` and the number after it from `text`, if it has one. Returns false if the text is
// malformed or the number is below `least`.
bool TakeNumber(absl::string_view* text, char mark, int least, int* number) {
  const std::vector<absl::string_view> parts = absl::StrSplit(*text, mark);
  *text = parts[0];
  if (parts.size() == 1) return true;
  return parts.size() == 2 && absl::SimpleAtoi(parts[1], number) && *number >= least;
}

absl::StatusOr<FailpointSetting> ParseSetting(absl::string_view text) {
  FailpointSetting setting;
  const std::vector<absl::string_view> sides = absl::StrSplit(text, '=');
  absl::string_view action = sides.size() == 2 ? sides[1] : "";
  if (TakeNumber(&action, '#', 1, &setting.count) && TakeNumber(&action, '@', 0, &setting.worker) &&
      absl::c_linear_search(kActions, action)) {
    setting.name = std::string(sides[0]);
    setting.action = std::string(action);
    return setting;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(kVariable,
                   ": malformed; expected NAME=delay|error|exit|kill|hang|stop[@WORKER][#COUNT], "
                   "got '",
                   text, "'"));
}

absl::StatusOr<std::vector<FailpointSetting>> ReadEnvironment() {
  std::vector<FailpointSetting> settings;
  const char* const text = getenv(kVariable);
  if (text == nullptr) return settings;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    MF_ASSIGN_OR_RETURN(settings.emplace_back(), ParseSetting(part));
  }
  return settings;
}

// Warns, because the variable can be left over in the environment or forwarded by a launcher.
void WarnOnce() {
  static std::once_flag warned;
  const char* const text = getenv(kVariable);
  if (text == nullptr || *text == '\0') return;
  std::call_once(warned, [text] {
    LogWarning(absl::StrCat(kVariable, ": this process fails on purpose at '", text, "'"));
  });
}

}  // namespace

Failpoint::Failpoint(absl::string_view name) : name_(name) {
  WarnOnce();
  {
    MutexLock lock(&TheRegistry().mu);
    TheRegistry().names.push_back(name_);
  }
  const absl::StatusOr<std::vector<FailpointSetting>> settings = ReadEnvironment();
  if (!settings.ok()) return;  // CheckEnvironment reports it
  for (const FailpointSetting& setting : *settings) {
    if (setting.name != name_) continue;
    is_set_ = true;
    setting_ = setting;
  }
}

absl::Status Failpoint::Act() {
  const auto& [place, action, worker, count] = setting_;
  if (worker >= 0 && worker != this_worker) return absl::OkStatus();
  const int pass = ++passes_;
  if (count > 0 && pass != count) return absl::OkStatus();
  if (action == "delay") {
    absl::SleepFor(kDelay);
    return absl::OkStatus();
  }
  if (action == "exit") _exit(1);
  if (action == "kill") kill(getpid(), SIGKILL);
  if (action == "stop") {
    raise(SIGSTOP);
    return absl::OkStatus();
  }
  while (action == "hang" || action == "kill") pause();
  return absl::InternalError(absl::StrCat("failpoint ", name_));
}

std::vector<std::string> Failpoint::Names() {
  MutexLock lock(&TheRegistry().mu);
  std::vector<std::string> names = TheRegistry().names;
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status Failpoint::CheckEnvironment() {
  MF_ASSIGN_OR_RETURN(const std::vector<FailpointSetting> settings, ReadEnvironment());
  const std::vector<std::string> names = Names();
  for (const FailpointSetting& setting : settings) {
    if (std::binary_search(names.begin(), names.end(), setting.name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(kVariable, ": no failpoint '",
                                                   Printable(setting.name), "'",
                                                   DidYouMean(setting.name, names)));
  }
  return absl::OkStatus();
}

void Failpoint::SetWorker(int worker) { this_worker = worker; }

}  // namespace mirrorflow
