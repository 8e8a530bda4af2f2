// SPDX-License-Identifier: Apache-2.0
//
// Connects workers of one rank each without a session, for benchmarks and tests of communicators.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECT_RANK_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECT_RANK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/cluster/collective_kind.h"
#include "distribute/collective/address_space.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/communicator.h"
#include "framework/workers/worker_group.h"

namespace mirrorflow {

// The rank of a worker. Members are destroyed from the last to the first.
struct ConnectedRank {
  std::unique_ptr<WorkerGroup> meeting, group;
  std::shared_ptr<AddressSpace> memory;  // that collectives may write
  std::unique_ptr<Communicator> communicator;
};

// This host as the others reach it, if they do not share memory.
struct NetworkOfRank {
  std::string device = "lo", address = "127.0.0.1";
};

// Called by all workers with two groups of theirs: one to meet in, and one for the ranks. `timeout`
// is that of a collective. Over shared memory, all workers must be on this host.
absl::StatusOr<ConnectedRank> ConnectRank(std::unique_ptr<WorkerGroup> meeting,
                                          std::unique_ptr<WorkerGroup> group, CollectiveKind kind,
                                          absl::Duration timeout, MonotonicTime deadline,
                                          const NetworkOfRank& network = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_CONNECT_RANK_H_
