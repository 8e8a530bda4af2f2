// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connections/host_port.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "framework/core/log.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/names.h"

namespace mirrorflow {

std::string HostPort::ToString() const {
  const bool ipv6 = absl::StrContains(host, ':');
  return absl::StrCat(ipv6 ? "[" : "", host, ipv6 ? "]:" : ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text, std::optional<int> default_port) {
  if (default_port.has_value() && (!absl::StrContains(text, ':') || absl::EndsWith(text, "]"))) {
    return ParseHostPort(absl::StrCat(text, ":", *default_port));
  }
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Printable(text), "': ", what, "; expected HOST:PORT or [IPv6]:PORT"));
  };
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return error("no port");
  absl::string_view host = text.substr(0, colon);
  const bool brackets = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  if (host.empty()) return error("no host");
  if (brackets != absl::StrContains(host, ':')) {
    return error(brackets ? "no IPv6 address in the brackets" : "an IPv6 address needs brackets");
  }
  for (const char c : host) {
    if (absl::ascii_isalnum(c) || absl::StrContains("-._:%", absl::string_view(&c, 1))) continue;
    return error("invalid character in the host name");
  }
  HostPort parsed{.host = std::string(host)};
  if (!absl::SimpleAtoi(text.substr(colon + 1), &parsed.port) || parsed.port < 1 ||
      parsed.port > 65535) {
    return error("the port is not an integer from 1 to 65535");
  }
  return parsed;
}

bool IsWildcard(absl::string_view host) { return host == "0.0.0.0" || host == "::"; }

bool IsLoopback(absl::string_view host) {
  in_addr address;
  const bool is_ipv4 = inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
  return host == "localhost" || host == "::1" || (is_ipv4 && absl::StartsWith(host, "127."));
}

namespace {

constexpr absl::Duration kFirstRetry = absl::Milliseconds(50);
constexpr absl::Duration kLongestRetry = absl::Seconds(1);
constexpr absl::Duration kReportInterval = absl::Seconds(10);

// Resolves the host name. Returns getaddrinfo's error, or 0 if the name has an address.
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
                       ": ", gai_strerror(error), "; expected a host name or address"));
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
