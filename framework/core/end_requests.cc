// SPDX-License-Identifier: Apache-2.0
#include "framework/core/end_requests.h"

#include <signal.h>

#include "absl/time/time.h"

namespace mirrorflow {

EndRequests::Kind EndRequests::Take(int signal, MonotonicTime now) {
  const int count = ++count_;
  if (count == 1) {
    first_time_ = now;
    first_signal_ = signal;
    return Kind::kFirst;
  }
  const bool is_repeated = count == 2 && signal == SIGTERM && first_signal_ == SIGTERM &&
                           now - first_time_.load() < absl::Seconds(5);
  return is_repeated ? Kind::kRepeated : Kind::kSecond;
}

}  // namespace mirrorflow
