// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CONNECTION_LISTENER_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CONNECTION_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

// Accepts TCP connections on one address and hands them on. gRPC can listen by itself, but it does
// not say why listening fails, and it reads whatever strangers send.
class ConnectionListener {
 public:
  // `fd`: a connected, non-blocking socket; the callee takes ownership. `peer`: its other end as a
  // URI, for instance `ipv4:10.0.0.2:40000` or `ipv6:%5B::1%5D:40000`.
  // Returns how long to wait before accepting more connections; usually zero.
  using OnConnection = std::function<absl::Duration(int fd, const std::string& peer)>;
  using OnError = std::function<void(const absl::Status& why)>;

  // Listens on HOST:PORT, and on no other address; port 0 chooses a free port. Connections wait
  // until Start. Returns Unavailable, with the system's reason, if the address cannot be used yet,
  // for example because another process uses the port: ports are never shared. Returns
  // InvalidArgument if a retry cannot help, for example for a privileged port.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Listen(absl::string_view address);

  // Stops accepting, and blocks until a call of OnConnection in progress returns.
  ~ConnectionListener();
  ConnectionListener(const ConnectionListener&) = delete;
  ConnectionListener& operator=(const ConnectionListener&) = delete;

  int port() const { return port_; }

  // Calls `on_connection` for each connection, from the listener's thread. Calls `on_error`, from
  // the same thread, when accepting has failed for several seconds, for instance because file
  // descriptors have run out, and again while that lasts. Call once. Returns ResourceExhausted if
  // the thread cannot be started.
  absl::Status Start(OnConnection on_connection, OnError on_error);

 private:
  ConnectionListener(std::vector<int> sockets, int port, int stop);
  void Accept(const OnConnection& on_connection, const OnError& on_error) const;

  const std::vector<int> sockets_;  // one per address of the host name
  const int port_;
  const int stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_CONNECTION_LISTENER_H_
