// SPDX-License-Identifier: Apache-2.0
//
// The communicator of replicas that are threads of one process: they read and write one another's
// memory, and nothing is copied on the way (ALGORITHMS.md).
//
// Contract, beyond that of Communicator. Host memory only; lanes are ignored. Reductions are summed
// in rank order, so all ranks get the same bits in every run. Start neither waits nor computes; in
// Finish each rank works off its share. A collective succeeds on all ranks or on none. Nobody
// touches a rank's memory once one of its calls has returned an error, nor after the Finish.
// Destroying one rank's communicator ends the others'. A communicator that Split makes is
// independent of its parent: aborting one leaves the other.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_IN_PROCESS_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_IN_PROCESS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/runtime/communicator.h"

namespace mirrorflow {

struct InProcessOptions {
  // How long a Finish waits for the other ranks before it aborts all of them.
  absl::Duration timeout = absl::Minutes(5);
};

// The ends of ranks 0 … world_size-1, each for one thread.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> CreateInProcessCommunicators(
    int world_size, const InProcessOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_IN_PROCESS_H_
