// SPDX-License-Identifier: Apache-2.0
//
// Makes the TCP connections between ranks of different memory domains. Both ends are authenticated.
// With certificates, the connections are encrypted.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_DATA_CONNECTIONS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_DATA_CONNECTIONS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "distribute/cluster/connections/handshake.h"
#include "distribute/cluster/connections/rejected_peer_log.h"
#include "distribute/cluster/connections/tls_files.h"
#include "distribute/collective/tcp/stream.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/topology.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

struct DataConnectionOptions {
  // This host's numeric address. Its ranks listen on it and connect from it.
  std::string address;
  Handshake::Cluster cluster;
  TlsFiles tls = {};
  absl::Duration timeout = absl::Minutes(5);             // TCP_USER_TIMEOUT
  std::shared_ptr<RejectedPeerLog> strangers = nullptr;  // logs refused callers; can be null
  // Limits concurrent handshakes with callers from workers' addresses. Each can take 100 KB.
  size_t max_handshakes = 256;
};

// Connects each of `local_ranks` to its peers in other domains (DomainPartners): the higher rank of
// a pair connects to the lower one. All workers must call this, because they exchange their
// addresses through `workers`. A rank must connect from its worker's address. Returns each local
// rank's connections, by peer. The listening port is closed on return. If a rank has not connected
// by the deadline, the error's Failure names it.
absl::StatusOr<std::vector<std::map<int, std::unique_ptr<Stream>>>> ConnectData(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup& workers,
    MonotonicTime deadline, const DataConnectionOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECTIONS_DATA_CONNECTIONS_H_
