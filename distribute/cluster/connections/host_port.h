// SPDX-License-Identifier: Apache-2.0
//
// HostPort: a HOST:PORT address as users and launchers write it; parsing and name resolution.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_HOST_PORT_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_HOST_PORT_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

struct HostPort {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without brackets
  int port = 0;

  std::string ToString() const;  // `host:port`, `[::1]:port`
};

// Parses `host:port` or `[::1]:port`. The port is optional if there is a default. Returns
// InvalidArgument for any other text, and for a port outside 1 to 65535.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text,
                                       std::optional<int> default_port = std::nullopt);

// Whether the host is the wildcard address, 0.0.0.0 or ::.
bool IsWildcard(absl::string_view host);

// Whether the host is `localhost`, in 127.0.0.0/8 or ::1. Does not resolve other names.
bool IsLoopback(absl::string_view host);

// Blocks until the host name of `address` resolves. A pod's name, for example, reaches DNS only
// after the pod has started, even for lookups from the pod itself. Logs while it waits. Returns
// DeadlineExceeded, with the resolver's error, after `deadline`.
absl::Status WaitUntilResolved(const HostPort& address, MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_HOST_PORT_H_
