// SPDX-License-Identifier: Apache-2.0
//
// Connects the workers' CPU replicas. The ranks of a memory domain form a local team, whether they
// are threads of one worker or of several workers on one host. Domains exchange messages over TCP
// or UCX.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECT_WORKERS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECT_WORKERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "distribute/cluster/connections/data_connections.h"
#include "distribute/collective/domain_exchange.h"
#include "distribute/collective/shared_memory/host_memory.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

struct ConnectOptions {
  absl::Duration timeout = absl::Minutes(5);  // per collective
  // Whether domains exchange data over UCX rather than TCP.
  bool over_ucx = false;
  std::string device;  // network device for UCX; if empty, all devices that UCX finds
  // For TCP. ConnectWorkers sets the incarnation.
  DataConnectionOptions data = {};
  ExchangeOptions exchange = {};
  // Whether a core stays free while this worker's ranks compute.
  bool has_core = false;
  // Shared by all workers in this worker's domain; null if the domain has no other workers.
  std::shared_ptr<HostMemory> host_memory = nullptr;
};

// Implements ConnectFn. The ranks exchange their addresses through `workers`.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectWorkers(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup* workers,
    uint64_t incarnation, MonotonicTime deadline, const ConnectOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECT_WORKERS_H_
