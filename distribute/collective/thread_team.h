// SPDX-License-Identifier: Apache-2.0
//
// The local team of replicas that are threads of one process (ALGORITHMS.md). Memory is offered
// without copying it, and nothing is locked or allocated unless there is a failure.
//
// Contract, beyond that of LocalTeam: destroying one rank's team fails the other ranks.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_THREAD_TEAM_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_THREAD_TEAM_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/runtime/local_team.h"

namespace mirrorflow {

struct ThreadTeamOptions {
  // How long a Finish waits for the other ranks before it aborts all of them.
  absl::Duration timeout = absl::Minutes(5);
  // World ranks of the members, for errors; empty: 0 … size-1.
  std::vector<int> world_ranks = {};
  // Called once, from any thread, with the first failure. It must end waits of the work for
  // anything outside the team.
  std::function<void(const absl::Status&)> on_failure = nullptr;
};

// Creates the teams of members 0 … size-1, each for one thread.
absl::StatusOr<std::vector<std::unique_ptr<LocalTeam>>> CreateThreadTeam(
    int size, const ThreadTeamOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_THREAD_TEAM_H_
