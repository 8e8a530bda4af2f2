// SPDX-License-Identifier: Apache-2.0
//
// The local team of replicas that are threads of one process (ALGORITHMS.md). Nothing is copied to
// hand it over, and nothing is locked or allocated while all goes well.
//
// Contract, beyond that of LocalTeam: destroying one rank's team ends the others'.
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
  // The ranks of the world that are in the team, for errors; empty: 0 … size-1.
  std::vector<int> world_ranks = {};
  // Called once, from any thread, with the first failure: work may wait for what is outside of the
  // team, and that wait has to end as well.
  std::function<void(const absl::Status&)> on_failure = nullptr;
};

// The ends of members 0 … size-1, each for one thread.
absl::StatusOr<std::vector<std::unique_ptr<LocalTeam>>> CreateThreadTeam(
    int size, const ThreadTeamOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_THREAD_TEAM_H_
