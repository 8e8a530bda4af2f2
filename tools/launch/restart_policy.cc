// SPDX-License-Identifier: Apache-2.0
#include "tools/launch/restart_policy.h"

#include <algorithm>
#include <cmath>
#include <csignal>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "tools/flags/command_line.h"

namespace mirrorflow {

std::optional<absl::Duration> RestartPolicy::PauseAfter(const Ending& ending) {
  // Unless the worker has succeeded or was interrupted, it would fail again with these codes.
  constexpr int kFinal[] = {0,           kExitUsage, kExitBadInput, kExitResources, kExitNumeric,
                            128 + SIGINT};
  if (absl::c_linear_search(kFinal, ending.exit_code)) return std::nullopt;
  if (ending.is_counted) return last_pause_;
  if (ending.saved_step > saved_step_) {
    saved_step_ = ending.saved_step;
    attempts_ = 0;
    failures_by_host_.clear();
  }
  if (++attempts_ > options_.max_restarts) return std::nullopt;
  // A host that preempts its workers is not at fault.
  const bool may_exclude = options_.exclude_after > 0 && ending.exit_code != kExitPreempted;
  if (may_exclude && !ending.host.empty() &&
      ++failures_by_host_[ending.host] >= options_.exclude_after) {
    excluded_.insert(ending.host);
  }
  const int doublings = attempts_ - 1 - static_cast<int>(ending.is_alone);
  const absl::Duration longest =
      doublings < 0 ? absl::ZeroDuration()
                    : std::min(options_.first_pause * std::exp2(std::min(doublings, 30)),
                               options_.longest_pause);
  last_pause_ = longest * std::uniform_real_distribution<>(0.5, 1)(random_);
  return last_pause_;
}

std::string RestartPolicy::Text() const {
  const std::string since =
      saved_step_ > 0 ? absl::StrCat(" since step ", saved_step_, " was saved") : "";
  return absl::StrCat(attempts_, " of at most ", options_.max_restarts, since);
}

void RestartPolicy::IncludeAll() {
  excluded_.clear();
  failures_by_host_.clear();
}

}  // namespace mirrorflow
