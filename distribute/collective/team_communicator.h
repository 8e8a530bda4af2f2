// SPDX-License-Identifier: Apache-2.0
//
// TeamCommunicator: collectives on host memory, for replicas on CPUs. Within a memory domain its
// ranks work as a local team; between domains they exchange messages.
//
// The contract of Communicator applies, with these additions. Lanes are ignored. Values are reduced
// in rank order within a domain, then in domain order, so all ranks get the same bits in every run.
// Start neither waits nor computes; each rank does its part in Finish. A collective succeeds on all
// ranks of a domain or on none. Destroying one rank's communicator fails the other ranks of its
// domain.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TEAM_COMMUNICATOR_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TEAM_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/collective/domain_exchange.h"
#include "distribute/collective/local_team.h"
#include "distribute/collective/progress_thread.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"

namespace mirrorflow {

// Creates the communicator of `rank`. `exchange` is null if all ranks are in one domain; otherwise
// a failure of the team must abort it (TeamOptions::on_failure). Without a progress thread, data
// moves only during the rank's own calls.
std::unique_ptr<Communicator> CreateTeamCommunicator(
    const Topology& topology, int rank, std::unique_ptr<LocalTeam> team,
    std::shared_ptr<DomainExchange> exchange, std::shared_ptr<ProgressThread> thread = nullptr);

// Creates the communicators of all ranks of a world with one worker and one domain, each for use by
// one thread. `timeout` limits how long Finish waits for the other ranks before it aborts all of
// them.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> CreateTeamCommunicators(
    int world_size, absl::Duration timeout = absl::Minutes(5));

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TEAM_COMMUNICATOR_H_
