// SPDX-License-Identifier: Apache-2.0
//
// Connects the CPU replicas of workers. The ranks of a memory domain form a local team, whether
// they are threads of one worker or of several on one host; domains exchange messages over UCX.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECT_WORKERS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECT_WORKERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "distribute/collective/shared_memory/host_memory.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"
#include "framework/session/worker_group.h"

namespace mirrorflow {

struct ConnectOptions {
  absl::Duration timeout = absl::Minutes(5);  // of a collective
  std::string device;                         // network device; empty: all that UCX finds
  // Shared by the workers of this one's domain; null if this worker is a domain of its own.
  std::shared_ptr<HostMemory> host_memory = nullptr;
};

// Implements ConnectFn. The ranks exchange their addresses through `workers`.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectWorkers(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup* workers,
    uint64_t incarnation, absl::Time deadline, const ConnectOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECT_WORKERS_H_
