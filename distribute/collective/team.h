// SPDX-License-Identifier: Apache-2.0
//
// The local team of a memory domain's replicas (ALGORITHMS.md): threads of one process, or of
// several processes on one host. The team copies offered memory only if the other ranks cannot
// access it. Apart from these copies, it neither locks nor allocates anything unless a rank fails.
//
// The contract of LocalTeam applies. In addition, destroying one rank's team fails the other ranks.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TEAM_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TEAM_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "distribute/collective/address_space.h"
#include "distribute/collective/local_team.h"

namespace mirrorflow {

struct TeamOptions {
  // How long Finish waits for the other ranks before it aborts all of them.
  absl::Duration timeout = absl::Minutes(5);
  // World ranks of the members, for errors. Empty means 0 … size-1.
  std::vector<int> world_ranks = {};
  // Called once, from any thread, with the first failure. It must end everything outside the team
  // that the work waits for.
  std::function<void(const absl::Status&)> on_failure = nullptr;
};

using LocalTeams = std::vector<std::unique_ptr<LocalTeam>>;

// Creates the team objects of members 0 … size-1, each for use by one thread of this process.
absl::StatusOr<LocalTeams> CreateThreadTeam(int size, const TeamOptions& options = {});

// A team of several processes.
struct ProcessTeam {
  std::shared_ptr<AddressSpace> space;
  // The process of each member, as numbered in `space`. Only the members of this process are
  // created here.
  std::vector<int> processes;
  // Shared memory of TeamStateBytes() bytes, the same in all processes, zeroed before any process
  // uses it.
  std::shared_ptr<std::byte> state;
};
size_t TeamStateBytes(int size, int num_processes);
absl::StatusOr<LocalTeams> CreateProcessTeam(const ProcessTeam& team, const TeamOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_TEAM_H_
