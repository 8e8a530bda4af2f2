// SPDX-License-Identifier: Apache-2.0
#include "framework/core/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

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

struct Setting {
  std::string name, action;
  int worker = -1;
  int count = 0;
};

absl::StatusOr<Setting> ParseSetting(absl::string_view text) {
  const auto malformed = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat(kVariable,
                     ": malformed; expected NAME=delay|error|exit|kill|hang|stop[@WORKER][#COUNT], "
                     "got '",
                     text, "'"));
  };
  Setting setting;
  const std::vector<absl::string_view> sides = absl::StrSplit(text, '=');
  if (sides.size() != 2) return malformed();
  setting.name = std::string(sides[0]);
  const std::vector<absl::string_view> counted = absl::StrSplit(sides[1], '#');
  if (counted.size() > 2) return malformed();
  if (counted.size() == 2 && (!absl::SimpleAtoi(counted[1], &setting.count) || setting.count < 1)) {
    return malformed();
  }
  const std::vector<absl::string_view> placed = absl::StrSplit(counted[0], '@');
  if (placed.size() > 2) return malformed();
  if (placed.size() == 2 && (!absl::SimpleAtoi(placed[1], &setting.worker) || setting.worker < 0)) {
    return malformed();
  }
  setting.action = std::string(placed[0]);
  if (std::find(std::begin(kActions), std::end(kActions), setting.action) == std::end(kActions)) {
    return malformed();
  }
  return setting;
}

absl::StatusOr<std::vector<Setting>> ReadEnvironment() {
  std::vector<Setting> settings;
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
  const absl::StatusOr<std::vector<Setting>> settings = ReadEnvironment();
  if (!settings.ok()) return;  // CheckEnvironment reports it
  for (const Setting& setting : *settings) {
    if (setting.name != name_) continue;
    is_set_ = true;
    action_ = setting.action;
    worker_ = setting.worker;
    count_ = setting.count;
  }
}

absl::Status Failpoint::Act() {
  if (worker_ >= 0 && worker_ != this_worker) return absl::OkStatus();
  const int pass = ++passes_;
  if (count_ > 0 && pass != count_) return absl::OkStatus();
  if (action_ == "delay") {
    absl::SleepFor(kDelay);
    return absl::OkStatus();
  }
  if (action_ == "exit") _exit(1);
  if (action_ == "kill") kill(getpid(), SIGKILL);
  if (action_ == "stop") {
    raise(SIGSTOP);
    return absl::OkStatus();
  }
  while (action_ == "hang" || action_ == "kill") pause();
  return absl::InternalError(absl::StrCat("failpoint ", name_));
}

std::vector<std::string> Failpoint::Names() {
  MutexLock lock(&TheRegistry().mu);
  std::vector<std::string> names = TheRegistry().names;
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status Failpoint::CheckEnvironment() {
  MF_ASSIGN_OR_RETURN(const std::vector<Setting> settings, ReadEnvironment());
  const std::vector<std::string> names = Names();
  for (const Setting& setting : settings) {
    if (std::binary_search(names.begin(), names.end(), setting.name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(kVariable, ": no failpoint '",
                                                   Printable(setting.name), "'",
                                                   DidYouMean(setting.name, names)));
  }
  return absl::OkStatus();
}

void Failpoint::SetWorker(int worker) { this_worker = worker; }

}  // namespace mirrorflow
