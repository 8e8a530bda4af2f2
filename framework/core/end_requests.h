// SPDX-License-Identifier: Apache-2.0
//
// EndRequests: distinguishes a second request to end the process from a first request that arrives
// twice. A batch system, a service manager or a launcher can send SIGTERM to all processes of a
// job, and these processes also forward it to each other.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_END_REQUESTS_H_
#define MIRRORFLOW_FRAMEWORK_CORE_END_REQUESTS_H_

#include <atomic>
#include <cstdint>

#include "framework/core/monotonic_time.h"

namespace mirrorflow {

class EndRequests {
 public:
  enum class Kind {
    kFirst,
    kRepeated,  // a second SIGTERM within 5 s of the first: the same request
    kSecond,    // any other later signal: the process ends immediately
  };
  // Classifies a signal that has arrived. Thread-safe and async-signal-safe.
  Kind Take(int signal, MonotonicTime now = MonotonicTime::Now());

 private:
  static_assert(std::atomic<int64_t>::is_always_lock_free);

  // The first request: milliseconds * 256 + signal; 0 before it arrives.
  std::atomic<int64_t> first_{0};
  std::atomic<bool> was_repeated_{false};
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_END_REQUESTS_H_
