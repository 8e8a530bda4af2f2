// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/ucx_cluster.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "distribute/collective/domain_exchange.h"
#include "distribute/collective/team_communicator.h"
#include "distribute/collective/thread_team.h"
#include "distribute/collective/ucx/ucx_transport.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

std::string AddressKey(int rank) { return absl::StrCat("ucx address of rank ", rank); }

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectOverUcx(
    const Topology& topology, absl::Span<const int> local_ranks, WorkerGroup* workers,
    uint64_t incarnation, absl::Time deadline, const UcxClusterOptions& options) {
  std::vector<std::unique_ptr<UcxTransport>> transports;
  for (const int rank : local_ranks) {
    MF_ASSIGN_OR_RETURN(auto transport,
                        UcxTransport::Create({.rank = rank,
                                              .timeout = kBetweenDomains * options.timeout,
                                              .connection = incarnation,
                                              .device = options.device}));
    MF_ASSIGN_OR_RETURN(std::string address, transport->Address());
    MF_RETURN_IF_ERROR(workers->Put(AddressKey(rank), std::move(address), deadline));
    transports.push_back(std::move(transport));
  }
  for (int peer = 0; peer < topology.world_size(); ++peer) {
    const int worker = topology.replicas[peer].worker;
    if (worker == workers->worker()) continue;
    const auto address = workers->Get(AddressKey(peer), deadline);
    if (!address.ok()) return WithFailure(address.status(), {.rank = peer, .worker = worker});
    for (const auto& transport : transports) {
      MF_RETURN_IF_ERROR(transport->Connect(peer, *address));
    }
  }
  std::vector<std::shared_ptr<DomainExchange>> exchanges;
  for (size_t i = 0; i < local_ranks.size(); ++i) {
    exchanges.push_back(
        std::make_shared<DomainExchange>(topology, local_ranks[i], std::move(transports[i])));
  }
  const auto abort = [exchanges](const absl::Status& why) {
    for (const auto& exchange : exchanges) exchange->Abort(why);
  };
  MF_ASSIGN_OR_RETURN(auto team,
                      CreateThreadTeam(static_cast<int>(local_ranks.size()),
                                       {.timeout = options.timeout,
                                        .world_ranks = {local_ranks.begin(), local_ranks.end()},
                                        .on_failure = abort}));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (size_t i = 0; i < local_ranks.size(); ++i) {
    communicators.push_back(
        CreateTeamCommunicator(topology, local_ranks[i], std::move(team[i]), exchanges[i]));
  }
  MF_RETURN_IF_ERROR(workers->Barrier("connected", deadline));
  return communicators;
}

}  // namespace mirrorflow
