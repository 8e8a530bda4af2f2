// SPDX-License-Identifier: Apache-2.0
//
// HostPort, which holds a HOST:PORT address as users and launchers write it, and functions that
// parse addresses and resolve names.
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

  std::string ToString() const;  // returns `host:port` or `[::1]:port`
};

// Parses `host:port` or `[::1]:port`. With `default_port`, the port can be omitted. Returns
// InvalidArgument for any other text, and for a port outside 1 to 65535.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text,
                                       std::optional<int> default_port = std::nullopt);

// Returns whether the host is the wildcard address, 0.0.0.0 or ::.
bool IsWildcard(absl::string_view host);

// Returns whether the host is `localhost`, an address in 127.0.0.0/8, or ::1. Resolves no names.
bool IsLoopback(absl::string_view host);

// Blocks until the host name of `address` resolves, and logs while it waits. A pod's name, for
// example, is in DNS only after the pod has started, even for lookups from the pod itself. Returns
// DeadlineExceeded, with the resolver's error, after `deadline`.
absl::Status WaitUntilResolved(const HostPort& address, MonotonicTime deadline);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_HOST_PORT_H_
