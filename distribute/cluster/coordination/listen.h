// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_LISTEN_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_LISTEN_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "distribute/cluster/coordination/tls_files.h"

namespace mirrorflow {

// Serves `service` at `address`, HOST:PORT, and on no other address; `*port` is the port, which the
// system chooses for port 0. Strangers can neither take all memory nor all connections: memory for
// connections is limited, idle ones are closed, and messages must be small. Unavailable, with the
// system's reason, if the address cannot be used.
absl::StatusOr<std::unique_ptr<grpc::Server>> Listen(const std::string& address,
                                                     const TlsFiles& tls, grpc::Service* service,
                                                     int* port);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_LISTEN_H_
