// SPDX-License-Identifier: Apache-2.0
#include "distribute/strategy/option_ranges.h"

#include "absl/strings/str_cat.h"

namespace mirrorflow {

absl::Status CheckTimeouts(
    std::initializer_list<std::pair<absl::string_view, absl::Duration>> timeouts) {
  for (const auto& [name, value] : timeouts) {
    if (value > absl::ZeroDuration()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " out of range; expected above 0, got ", absl::FormatDuration(value)));
  }
  return absl::OkStatus();
}

absl::Status CheckAtLeast(absl::string_view name, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " out of range; expected at least ", least, ", got ", value));
}

absl::Status CheckThreadsPerReplica(int threads) {
  constexpr int kMost = 256;
  if (threads >= 1 && threads <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("threads_per_replica out of range; expected 1 to ", kMost, ", got ", threads));
}

}  // namespace mirrorflow
