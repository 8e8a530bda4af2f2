// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CONNECTION_LISTENER_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CONNECTION_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/core/owned_socket.h"

namespace mirrorflow {

// Accepts TCP connections on one address and passes them to a callback. gRPC's own listener would
// not report why listening fails, and would read whatever strangers send.
class ConnectionListener {
 public:
  // `fd`: a connected, non-blocking socket; the callee takes ownership. `peer`: the address of the
  // other end as a URI, for instance `ipv4:10.0.0.2:40000` or `ipv6:%5B::1%5D:40000`.
  // Returns how long to wait before accepting more connections; usually zero.
  using OnConnection = std::function<absl::Duration(int fd, const std::string& peer)>;
  using OnError = std::function<void(const absl::Status& why)>;

  // Listens only on HOST:PORT; port 0 selects a free port. Connections wait until Start. Returns
  // Unavailable, with the system's reason, if the address cannot be used yet, for example because
  // another process uses the port: ports are never shared. Returns InvalidArgument if a retry
  // cannot help, for example for a privileged port.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Listen(absl::string_view address);

  // Stops accepting, and blocks until a call of OnConnection in progress returns.
  ~ConnectionListener();

  int port() const { return port_; }

  // Starts a thread that calls `on_connection` for each connection. It calls `on_error` whenever
  // accepting has failed for several seconds, for instance because file descriptors have run out,
  // and repeats this while the failure lasts. Must be called only once. Returns ResourceExhausted
  // if the thread cannot be started.
  absl::Status Start(OnConnection on_connection, OnError on_error);

 private:
  ConnectionListener(std::vector<OwnedSocket> sockets, int port, OwnedSocket stop)
      : sockets_(std::move(sockets)), port_(port), stop_(std::move(stop)) {}
  void Accept(const OnConnection& on_connection, const OnError& on_error) const;

  const std::vector<OwnedSocket> sockets_;  // one per address of the host name
  const int port_;
  const OwnedSocket stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CONNECTION_LISTENER_H_
