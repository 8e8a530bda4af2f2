// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connect_rank.h"

#include <string>
#include <utility>
#include <vector>

#include "distribute/cluster/connect_workers.h"
#include "distribute/cluster/memory_domains.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

absl::StatusOr<ConnectedRank> ConnectRank(std::unique_ptr<WorkerGroup> meeting,
                                          std::unique_ptr<WorkerGroup> group, CollectiveKind kind,
                                          absl::Duration timeout, MonotonicTime deadline,
                                          const NetworkOfRank& network) {
  ConnectedRank rank = {.meeting = std::move(meeting), .group = std::move(group)};
  const std::vector<std::string> hosts(rank.group->num_workers(), "this host");
  MF_ASSIGN_OR_RETURN(const MemoryDomains domains,
                      FormMemoryDomains(hosts, kind, *rank.meeting, deadline));
  rank.memory = domains.host_memory;
  if (rank.memory == nullptr) rank.memory = AddressSpace::OfThisProcess();
  Topology topology;
  for (int worker = 0; worker < rank.group->num_workers(); ++worker) {
    topology.replicas.push_back({.worker = worker, .domain = domains.by_worker[worker]});
  }
  MF_ASSIGN_OR_RETURN(const uint64_t incarnation, rank.group->Join(deadline));
  const int ranks[] = {rank.group->worker()};
  MF_ASSIGN_OR_RETURN(auto communicators,
                      ConnectWorkers(topology, ranks, rank.group.get(), incarnation, deadline,
                                     {.timeout = timeout,
                                      .over_ucx = kind == CollectiveKind::kUcx,
                                      .device = network.device,
                                      .data = {.address = network.address},
                                      .host_memory = domains.host_memory}));
  rank.communicator = std::move(communicators[0]);
  return rank;
}

}  // namespace mirrorflow
