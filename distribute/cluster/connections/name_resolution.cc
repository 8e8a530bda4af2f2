// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/name_resolution.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/core/log.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {
namespace {

constexpr absl::Duration kFirstRetry = absl::Milliseconds(50);
constexpr absl::Duration kLongestRetry = absl::Seconds(1);
constexpr absl::Duration kReportInterval = absl::Seconds(10);

// The error of getaddrinfo; 0 if the name has an address.
int Resolve(const HostPort& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  if (error == 0) freeaddrinfo(found);
  return error;
}

}  // namespace

absl::Status WaitUntilResolved(const HostPort& address, MonotonicTime deadline) {
  const MonotonicTime start = MonotonicTime::Now();
  absl::Duration pause = kFirstRetry;
  MonotonicTime next_report = start + kReportInterval;
  while (const int error = Resolve(address)) {
    const MonotonicTime now = MonotonicTime::Now();
    if (now + pause >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(address.ToString(), ": cannot resolve the name in ",
                       absl::FormatDuration(absl::Trunc(now - start, absl::Milliseconds(100))),
                       ": ", gai_strerror(error), "; expected the name or address of a host"));
    }
    if (now >= next_report) {
      next_report = now + kReportInterval;
      LogInfo(absl::StrCat("waiting for the name ", address.host, " to resolve; ",
                           absl::ToInt64Seconds(now - start), " s of ",
                           absl::ToInt64Seconds(deadline - start), " s; ", gai_strerror(error)));
    }
    absl::SleepFor(pause);
    pause = std::min(2 * pause, kLongestRetry);
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
