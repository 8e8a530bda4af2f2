// SPDX-License-Identifier: Apache-2.0
#include "framework/workers/clock_offset.h"

#include "absl/strings/str_cat.h"

namespace mirrorflow {

absl::StatusOr<ClockOffset> OffsetOf(absl::Span<const Passage> other,
                                     absl::Span<const Passage> own) {
  if (own.empty() || other.size() != own.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "clock offset: expected the times of equally many barriers, at least one; got ", own.size(),
        " and ", other.size()));
  }
  ClockOffset best;
  for (size_t i = 0; i < own.size(); ++i) {
    const int64_t most = other[i].leave_ns - own[i].enter_ns;
    const int64_t least = other[i].enter_ns - own[i].leave_ns;
    const ClockOffset offset{.ns = least + (most - least) / 2,
                             .max_error_ns = (most - least + 1) / 2};
    if (i == 0 || offset.max_error_ns < best.max_error_ns) best = offset;
  }
  return best;
}

}  // namespace mirrorflow
