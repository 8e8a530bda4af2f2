// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TCP_SOCKET_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TCP_SOCKET_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/collective/tcp/owned_socket.h"

namespace mirrorflow {

// Starts to connect from an address of this host to HOST:PORT, without blocking: the socket becomes
// writable in the end.
absl::StatusOr<OwnedSocket> StartConnect(const std::string& from, const std::string& to);

// Sets a connection's options for data.
absl::Status SetDataOptions(int fd, absl::Duration timeout);

// The numeric address of the host at the other end of a connection, and that of a host.
absl::StatusOr<std::string> SourceOf(int fd);
absl::StatusOr<std::string> NumericHost(const std::string& host);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TCP_SOCKET_H_
