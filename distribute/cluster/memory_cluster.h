// SPDX-License-Identifier: Apache-2.0
//
// MemoryCluster: workers that are sessions of one process, for tests: their worker groups, and the
// connections of their replicas on CPUs. Ranks of one memory domain are a team of threads, also if
// they are different workers'; domains talk over a network in memory.
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_MEMORY_CLUSTER_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_MEMORY_CLUSTER_H_

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "distribute/cluster/memory_worker_group.h"
#include "distribute/collective/memory_transport.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/local_team.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

class MemoryCluster {
 public:
  // `timeout`: how long a collective waits for other ranks.
  MemoryCluster(int num_workers, absl::Duration timeout);

  WorkerGroup& worker_group(int worker) { return *groups_[worker]; }

  // SessionBackend::ConnectFn: the ends of `local_ranks`, once all workers have come.
  absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> Connect(
      const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup* workers,
      uint64_t incarnation, absl::Time deadline);

  // Cuts a worker off, its transport and its worker group; what is connected later works again, as
  // does the group once it is called with false. Any thread.
  void SetSilent(int worker, bool silent);

 private:
  // The connection of one incarnation.
  struct World {
    Topology topology;
    std::shared_ptr<MemoryNetwork> network;                        // null with one domain
    std::vector<std::unique_ptr<LocalTeam>> teams;                 // by rank, until it is taken
    std::vector<std::shared_ptr<class DomainExchange>> exchanges;  // by rank
  };
  absl::StatusOr<World*> WorldOf(uint64_t incarnation, const Topology& topology);

  const absl::Duration timeout_;
  const std::vector<std::unique_ptr<MemoryWorkerGroup>> groups_;
  std::mutex mu_;
  std::map<uint64_t, World> worlds_;  // guarded by mu_
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_MEMORY_CLUSTER_H_
