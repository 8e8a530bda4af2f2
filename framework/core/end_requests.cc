// SPDX-License-Identifier: Apache-2.0
#include "framework/core/end_requests.h"

#include <signal.h>

#include "absl/time/time.h"

namespace mirrorflow {
namespace {

constexpr int64_t kSameRequest = 5'000;  // milliseconds

}  // namespace

EndRequests::Kind EndRequests::Take(int signal, MonotonicTime now) {
  const int64_t milliseconds = absl::ToInt64Milliseconds(now - MonotonicTime());
  int64_t first = 0;
  if (first_.compare_exchange_strong(first, milliseconds * 256 + signal)) return Kind::kFirst;
  const bool is_same_request =
      signal == SIGTERM && first % 256 == SIGTERM && milliseconds - first / 256 < kSameRequest;
  return is_same_request && !was_repeated_.exchange(true) ? Kind::kRepeated : Kind::kSecond;
}

}  // namespace mirrorflow
