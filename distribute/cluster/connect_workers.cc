// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/connect_workers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "distribute/cluster/coordination/value_list.h"
#include "distribute/collective/domain_exchange.h"
#include "distribute/collective/domain_partners.h"
#include "distribute/collective/tcp/tcp_transport.h"
#include "distribute/collective/team.h"
#include "distribute/collective/team_communicator.h"
#include "distribute/collective/ucx/ucx_transport.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

using Exchanges = std::vector<std::shared_ptr<DomainExchange>>;
using Transports = std::vector<std::unique_ptr<Transport>>;  // by local rank

absl::StatusOr<Transports> ConnectOverTcp(const Topology& topology, absl::Span<const int> ranks,
                                          WorkerGroup& workers, uint64_t incarnation,
                                          MonotonicTime deadline, const ConnectOptions& options) {
  DataConnectionOptions data = options.data;
  data.cluster.incarnation = incarnation;
  data.timeout = options.timeout;
  MF_ASSIGN_OR_RETURN(auto connections, ConnectData(topology, ranks, workers, deadline, data));
  Transports transports;
  for (size_t i = 0; i < ranks.size(); ++i) {
    MF_ASSIGN_OR_RETURN(transports.emplace_back(),
                        CreateTcpTransport(ranks[i], incarnation, std::move(connections[i])));
  }
  return transports;
}

absl::StatusOr<Transports> ConnectOverUcx(const Topology& topology, absl::Span<const int> ranks,
                                          WorkerGroup& workers, uint64_t incarnation,
                                          MonotonicTime deadline, const ConnectOptions& options) {
  const auto at = [&](const absl::Status& status, int rank) {
    return WithFailure(status, {.rank = rank, .worker = topology.replicas[rank].worker});
  };
  std::vector<std::unique_ptr<UcxTransport>> transports;
  std::vector<std::string> own;
  for (const int rank : ranks) {
    auto transport =
        UcxTransport::Create({.rank = rank, .incarnation = incarnation, .device = options.device});
    if (!transport.ok()) return at(transport.status(), rank);
    MF_ASSIGN_OR_RETURN(own.emplace_back(), (*transport)->Address());
    transports.push_back(*std::move(transport));
  }
  MF_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      workers.AllGather("ucx addresses", JoinValues(own), deadline));
  std::vector<std::string> address_of;  // by rank
  for (int worker = 0; worker < topology.num_workers(); ++worker) {
    const auto num_ranks = static_cast<int>(topology.RanksOfWorker(worker).size());
    MF_ASSIGN_OR_RETURN(std::vector<std::string> addresses, SplitValues(all[worker], num_ranks));
    std::move(addresses.begin(), addresses.end(), std::back_inserter(address_of));
  }
  const DomainPartners partners(topology);
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (const int peer : partners.PeersOf(ranks[i])) {
      const absl::Status connected = transports[i]->Connect(peer, address_of[peer]);
      if (!connected.ok()) return at(connected, peer);
    }
  }
  return Transports(std::make_move_iterator(transports.begin()),
                    std::make_move_iterator(transports.end()));
}

// Connects the local ranks to the other domains. Returns each local rank's exchange; null with one
// domain.
absl::StatusOr<Exchanges> ConnectDomains(const Topology& topology, absl::Span<const int> ranks,
                                         WorkerGroup& workers, uint64_t incarnation,
                                         MonotonicTime deadline, const ConnectOptions& options) {
  if (topology.num_domains() == 1) return Exchanges(ranks.size());
  const auto connect = options.over_ucx ? ConnectOverUcx : ConnectOverTcp;
  MF_ASSIGN_OR_RETURN(Transports transports,
                      connect(topology, ranks, workers, incarnation, deadline, options));
  Exchanges exchanges;
  for (size_t i = 0; i < ranks.size(); ++i) {
    exchanges.push_back(
        std::make_shared<DomainExchange>(topology, ranks[i], std::move(transports[i]),
                                         kBetweenDomains * options.timeout, options.exchange));
  }
  return exchanges;
}

// Creates or joins the team of this worker's domain. Returns each local rank's member of the team.
absl::StatusOr<LocalTeams> ConnectDomain(const Topology& topology, absl::Span<const int> ranks,
                                         WorkerGroup& workers, MonotonicTime deadline,
                                         HostMemory* host_memory, const TeamOptions& options) {
  if (host_memory == nullptr) return CreateThreadTeam(static_cast<int>(ranks.size()), options);
  ProcessTeam team = {.space = host_memory->shared_from_this()};
  const std::vector<int>& workers_here = host_memory->workers();
  for (const int rank : options.world_ranks) {
    const auto worker = std::ranges::find(workers_here, topology.replicas[rank].worker);
    team.processes.push_back(static_cast<int>(worker - workers_here.begin()));
  }
  const size_t bytes =
      TeamStateBytes(static_cast<int>(team.processes.size()), host_memory->num_processes());
  MF_ASSIGN_OR_RETURN(team.state, host_memory->Share(bytes, "team", workers, deadline));
  return CreateProcessTeam(team, options);
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectWorkers(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup* workers,
    uint64_t incarnation, MonotonicTime deadline, const ConnectOptions& options) {
  MF_ASSIGN_OR_RETURN(const Exchanges exchanges, ConnectDomains(topology, local_ranks, *workers,
                                                                incarnation, deadline, options));
  TeamOptions team_options = {
      .timeout = options.timeout,
      .world_ranks = topology.RanksOfDomain(topology.replicas[local_ranks[0]].domain)};
  if (topology.num_domains() > 1) {
    team_options.on_failure = [exchanges](const absl::Status& why) {
      for (const auto& exchange : exchanges) exchange->Abort(why);
    };
  }
  MF_ASSIGN_OR_RETURN(LocalTeams team, ConnectDomain(topology, local_ranks, *workers, deadline,
                                                     options.host_memory.get(), team_options));
  std::shared_ptr<ProgressThread> thread;
  if (topology.num_domains() > 1) {
    MF_ASSIGN_OR_RETURN(thread, ProgressThread::Create(options.has_core));
  }
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (size_t i = 0; i < local_ranks.size(); ++i) {
    communicators.push_back(
        CreateTeamCommunicator(topology, local_ranks[i], std::move(team[i]), exchanges[i], thread));
  }
  MF_RETURN_IF_ERROR(workers->Barrier("connected", deadline));
  return communicators;
}

}  // namespace mirrorflow
