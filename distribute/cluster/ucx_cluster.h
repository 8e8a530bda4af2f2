// SPDX-License-Identifier: Apache-2.0
//
// Connects the CPU replicas of workers over UCX. Each worker is a memory domain: its ranks form a
// team of threads.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_UCX_CLUSTER_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_UCX_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"
#include "framework/session/worker_group.h"

namespace mirrorflow {

struct UcxClusterOptions {
  absl::Duration timeout = absl::Minutes(5);  // of a collective
  std::string device;                         // network device; empty: all that UCX finds
};

// Implements ConnectFn. The ranks exchange their addresses through `workers`.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectOverUcx(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup* workers,
    uint64_t incarnation, absl::Time deadline, const UcxClusterOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_UCX_CLUSTER_H_
