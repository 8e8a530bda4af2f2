// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cluster/memory_cluster.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/collective/domain_exchange.h"
#include "distribute/collective/team.h"
#include "distribute/collective/team_communicator.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/mutex.h"
#include "framework/core/status.h"

namespace mirrorflow {

MemoryCluster::MemoryCluster(int num_workers, absl::Duration timeout) : timeout_(timeout) {
  for (auto& group : CreateMemoryWorkerGroups(num_workers)) groups_.push_back(std::move(group));
}

absl::StatusOr<MemoryCluster::World*> MemoryCluster::WorldOf(uint64_t incarnation,
                                                             const Topology& topology) {
  const auto found = worlds_.find(incarnation);
  if (found != worlds_.end()) return &found->second;
  worlds_.erase(worlds_.begin(), worlds_.lower_bound(incarnation));
  World world{.topology = topology};
  world.teams.resize(topology.world_size());
  world.exchanges.resize(topology.world_size());
  if (topology.num_domains() > 1) world.network = MemoryNetwork::Create(topology);
  for (int domain = 0; domain < topology.num_domains(); ++domain) {
    const std::vector<int> ranks = topology.RanksOfDomain(domain);
    std::vector<std::shared_ptr<DomainExchange>> exchanges;
    for (const int rank : ranks) {
      if (world.network == nullptr) break;
      exchanges.push_back(std::make_shared<DomainExchange>(
          topology, rank, world.network->TransportOf(rank), kBetweenDomains * timeout_));
      world.exchanges[rank] = exchanges.back();
    }
    MF_ASSIGN_OR_RETURN(auto team,
                        CreateThreadTeam(static_cast<int>(ranks.size()),
                                         {.timeout = timeout_,
                                          .world_ranks = ranks,
                                          .on_failure = [exchanges](const absl::Status& why) {
                                            for (const auto& exchange : exchanges)
                                              exchange->Abort(why);
                                          }}));
    for (size_t i = 0; i < ranks.size(); ++i) world.teams[ranks[i]] = std::move(team[i]);
  }
  return &worlds_.emplace(incarnation, std::move(world)).first->second;
}

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MemoryCluster::Connect(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup* workers,
    uint64_t incarnation, MonotonicTime deadline) {
  std::vector<std::unique_ptr<Communicator>> communicators;
  {
    MutexLock lock(&mu_);
    MF_ASSIGN_OR_RETURN(World * world, WorldOf(incarnation, topology));
    if (world->topology != topology) {
      return absl::InvalidArgumentError(absl::StrCat(
          "worker ", workers->worker(), ": the topology differs from that of other workers; ",
          "expected ", world->topology.ToString(), ", got ", topology.ToString()));
    }
    std::shared_ptr<ProgressThread> thread;
    if (world->network != nullptr) {
      MF_ASSIGN_OR_RETURN(thread, ProgressThread::Create(/*has_core=*/false));
    }
    for (const int rank : local_ranks) {
      communicators.push_back(CreateTeamCommunicator(topology, rank, std::move(world->teams[rank]),
                                                     world->exchanges[rank], thread));
    }
  }
  MF_RETURN_IF_ERROR(workers->Barrier("connected", deadline));
  return communicators;
}

void MemoryCluster::SetSilent(int worker, bool silent) {
  groups_[worker]->SetSilent(silent);
  MutexLock lock(&mu_);
  for (const auto& [incarnation, world] : worlds_) {
    if (!silent || world.network == nullptr) continue;
    for (const int rank : world.topology.RanksOfWorker(worker)) world.network->Silence(rank);
  }
}

}  // namespace mirrorflow
