// SPDX-License-Identifier: Apache-2.0
//
// MemoryCluster: the infrastructure of several workers in one process, each with its own session,
// for tests. It provides their worker groups and connects their CPU replicas. The ranks of a memory
// domain form a team of threads, even if they belong to different workers. Domains communicate over
// an in-memory network.
#ifndef MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_CLUSTER_H_
#define MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_CLUSTER_H_

#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "distribute/collective/local_team.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"
#include "tests/fakes/cluster/memory_transport.h"
#include "tests/fakes/cluster/memory_worker_group.h"

namespace mirrorflow {

class MemoryCluster {
 public:
  // `timeout` limits how long a collective waits for other ranks.
  MemoryCluster(int num_workers, absl::Duration timeout);

  std::shared_ptr<WorkerGroup> worker_group(int worker) const { return groups_[worker]; }

  // Implements ConnectFn: returns the communicators of `local_ranks` once all workers have called
  // it.
  absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> Connect(
      const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup* workers,
      uint64_t incarnation, MonotonicTime deadline);

  // If `silent` is true, cuts off a worker's current transports and its worker group. Otherwise,
  // restores the worker group; the transports stay cut off, but new connections work. Thread-safe.
  void SetSilent(int worker, bool silent);

 private:
  // The connections of one incarnation.
  struct World {
    Topology topology;
    std::shared_ptr<MemoryNetwork> network;                        // null with one domain
    std::vector<std::unique_ptr<LocalTeam>> teams;                 // by rank; null once taken
    std::vector<std::shared_ptr<class DomainExchange>> exchanges;  // by rank
  };
  absl::StatusOr<World*> WorldOf(uint64_t incarnation, const Topology& topology)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const absl::Duration timeout_;
  std::vector<std::shared_ptr<MemoryWorkerGroup>> groups_;
  Mutex mu_;
  std::map<uint64_t, World> worlds_ ABSL_GUARDED_BY(mu_);
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FAKES_CLUSTER_MEMORY_CLUSTER_H_
