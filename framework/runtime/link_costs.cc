// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/link_costs.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace mirrorflow {

int64_t LinkCosts::BucketBytes(int64_t bytes_of_gradients) const {
  constexpr double kLeast = 64 << 10, kMost = 16 << 20;
  const double best = std::sqrt(message_ns * static_cast<double>(bytes_of_gradients) / byte_ns);
  return static_cast<int64_t>(std::clamp(best, kLeast, kMost));
}

std::string LinkCosts::ToString() const {
  return absl::StrFormat("%.17g ns per message, %.17g ns per byte", message_ns, byte_ns);
}

}  // namespace mirrorflow
