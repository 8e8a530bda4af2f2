// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/connect_domains.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "distribute/collective/domain_exchange.h"
#include "distribute/collective/team.h"
#include "distribute/collective/team_communicator.h"
#include "framework/core/status.h"
#include "tests/conformance/forwarding_team.h"

namespace mirrorflow {
namespace {

// Forwards a failure in one domain to all domains, as a worker group does. The first failure wins.
class AllDomains {
 public:
  void Abort(const absl::Status& why) {
    absl::Status first;
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (first_.ok()) first_ = why;
      first = first_;
    }
    for (const auto& team : teams) {
      if (const auto held = team.lock()) held->Abort(first);
    }
    for (const auto& exchange : exchanges) exchange->Abort(first);
  }

  // Filled before the first failure.
  std::vector<std::shared_ptr<DomainExchange>> exchanges;
  std::vector<std::weak_ptr<LocalTeam>> teams;

 private:
  std::mutex mu_;
  absl::Status first_;
};

// A member of a team whose Abort() aborts all domains.
class HeldTeam final : public ForwardingTeam {
 public:
  HeldTeam(std::shared_ptr<LocalTeam> team, std::shared_ptr<AllDomains> all)
      : ForwardingTeam(std::move(team)), all_(std::move(all)) {}
  void Abort(absl::Status why) override { all_->Abort(why); }

 private:
  const std::shared_ptr<AllDomains> all_;
};

}  // namespace

Topology DomainsOfEqualSize(int world_size, int num_domains) {
  Topology topology;
  num_domains = std::min(num_domains, world_size);
  for (int rank = 0; rank < world_size; ++rank) {
    const int domain = rank * num_domains / world_size;
    topology.replicas.push_back({.worker = domain, .domain = domain});
  }
  return topology;
}

Topology DomainsOfRanks(absl::string_view digits) {
  Topology topology;
  for (const char digit : digits) {
    topology.replicas.push_back({.worker = topology.world_size(), .domain = digit - '0'});
  }
  return topology;
}

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectDomains(
    const Topology& topology, absl::Duration timeout, const TransportFactory& create_transports,
    const ExchangeOptions& options) {
  const int world_size = topology.world_size(), num_domains = topology.num_domains();
  MF_ASSIGN_OR_RETURN(Transports transports, create_transports(topology));
  const auto all = std::make_shared<AllDomains>();
  for (int rank = 0; rank < world_size && num_domains > 1; ++rank) {
    // The timeout is longer than within a domain, so the domain of a missing rank reports it first.
    all->exchanges.push_back(std::make_shared<DomainExchange>(
        topology, rank, std::move(transports[rank]), 2 * timeout, options));
  }
  std::vector<std::unique_ptr<Communicator>> communicators(world_size);
  for (int domain = 0; domain < num_domains; ++domain) {
    const std::vector<int> ranks = topology.RanksOfDomain(domain);
    MF_ASSIGN_OR_RETURN(
        auto team,
        CreateThreadTeam(static_cast<int>(ranks.size()),
                         {.timeout = timeout,
                          .world_ranks = ranks,
                          .on_failure = [all](const absl::Status& why) { all->Abort(why); }}));
    for (size_t i = 0; i < ranks.size(); ++i) {
      const std::shared_ptr<LocalTeam> held = std::move(team[i]);
      all->teams.push_back(held);
      const auto exchange = num_domains > 1 ? all->exchanges[ranks[i]] : nullptr;
      communicators[ranks[i]] = CreateTeamCommunicator(
          topology, ranks[i], std::make_unique<HeldTeam>(held, all), exchange);
    }
  }
  return communicators;
}

}  // namespace mirrorflow
