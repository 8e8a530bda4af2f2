// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TCP_SOCKET_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TCP_SOCKET_H_

#include <netdb.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/cluster/connections/host_port.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {

// A list of addresses, linked by ai_next.
using Addresses = std::shared_ptr<const addrinfo>;
// Returns all TCP addresses of a host; port 0 means any port. Try them all, because a service may
// listen on only some of them. Returns Unavailable, with the resolver's reason, if there is none.
absl::StatusOr<Addresses> Resolve(const HostPort& target);

// Starts connecting from an address of this host to HOST:PORT, without blocking. The socket becomes
// writable when the attempt succeeds or fails.
absl::StatusOr<OwnedSocket> StartConnect(const std::string& from, const std::string& to);

// Like StartConnect above, but connects to the first address of `to`, from any address of this
// host. Returns FailedPrecondition if the other host refuses the connection because nothing is
// listening on the port.
absl::StatusOr<OwnedSocket> StartConnect(const addrinfo& to);
// Returns OK if a socket that has become writable is connected. Otherwise, returns why not, with
// the same codes as StartConnect.
absl::Status CheckConnected(int fd);
// Returns whether the network caused a connection's failure, rather than the other end, which can
// close or reset it. Clears the socket's error. For use when poll() reports POLLERR.
bool HasNetworkFailed(int fd);

// Makes a connection fail once the other host has acknowledged nothing for `timeout`, even while it
// is idle. It does not fail if the process at the other end is stopped, because the kernel still
// acknowledges.
absl::Status SetConnectionOptions(int fd, absl::Duration timeout);

// Return the numeric address of a connection's other end, and of the named host.
absl::StatusOr<std::string> SourceOf(int fd);
absl::StatusOr<std::string> NumericHost(const std::string& host);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_TCP_SOCKET_H_
