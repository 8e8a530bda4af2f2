// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_BACK_OFF_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_BACK_OFF_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "distribute/cluster/connections/authentication.h"

namespace mirrorflow {

// Exponential back-off with jitter. Nominal pauses double from `first` to `longest`. Each actual
// pause is random, between half of the nominal pause and all of it, so many callers spread out.
class BackOff {
 public:
  BackOff(absl::Duration first, absl::Duration longest)
      : first_(first), longest_(longest), next_(first) {}

  absl::Duration Next() {
    const absl::Duration pause = next_;
    next_ = std::min(2 * next_, longest_);
    return pause * (256 + static_cast<int64_t>(RandomNumber() % 256)) / 512;
  }
  void Reset() { next_ = first_; }

 private:
  absl::Duration first_, longest_, next_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_BACK_OFF_H_
