// SPDX-License-Identifier: Apache-2.0
//
// EndRequests: distinguishes a second request to end from one that arrives twice. A batch system, a
// service manager or a launcher may send SIGTERM to all processes of a job, and these pass it on to
// each other.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_END_REQUESTS_H_
#define MIRRORFLOW_FRAMEWORK_CORE_END_REQUESTS_H_

#include <atomic>

#include "framework/core/monotonic_time.h"

namespace mirrorflow {

class EndRequests {
 public:
  enum class Kind {
    kFirst,
    kRepeated,  // a second SIGTERM within 5 s of the first: the same request
    kSecond,    // any other: the process ends at once
  };
  // Call for each signal. Async-signal-safe.
  Kind Take(int signal, MonotonicTime now = MonotonicTime::Now());

 private:
  std::atomic<int> count_{0};
  std::atomic<int> first_signal_{0};
  std::atomic<MonotonicTime> first_time_{MonotonicTime()};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_END_REQUESTS_H_
