// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_LISTEN_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_LISTEN_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "distribute/cluster/connections/connection_listener.h"
#include "distribute/cluster/connections/tls_files.h"

namespace mirrorflow {

// A gRPC server and what accepts its connections, which must end first.
struct ListeningServer {
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<ConnectionListener> listener;
};

// Serves `service` at `address`, HOST:PORT, and on no other address. Strangers can neither take all
// memory nor all connections: memory for connections is limited, idle ones are closed, and messages
// must be small. `on_connection` learns of each connection before its first call: its peer is
// written as in ServerContext::peer. `on_error`: as for ConnectionListener::Start. Unavailable,
// with the system's reason, if the address cannot be used; ResourceExhausted if the process cannot
// open `num_connections` connections.
absl::StatusOr<ListeningServer> Listen(const std::string& address, int num_connections,
                                       const TlsFiles& tls, grpc::Service* service,
                                       std::function<void(const std::string& peer)> on_connection,
                                       ConnectionListener::OnError on_error);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_LISTEN_H_
