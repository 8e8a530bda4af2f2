// SPDX-License-Identifier: Apache-2.0
//
// RunWithRejoin lets a job survive the loss of a worker without ending the other workers' processes
// (as Horovod's elastic run). Once another process has taken the place of the lost worker, all
// workers join again and call the same function again, which resumes from the last checkpoint.
//
//   const Dataset images = …;  // made once
//   return RunWithRejoin(*strategy, [&]() -> absl::Status {
//     Graph graph;  // and Trainer::Create, CheckpointManager::Create, Restore, Fit, …
//   });
//
// All that workers do together belongs in the function: from the first session to the last value
// that is read. It must create and destroy its sessions and DistributedDatasets, and have no effect
// that a restart of the program would not repair.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_RUN_WITH_REJOIN_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_RUN_WITH_REJOIN_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "distribute/strategy/strategy.h"

namespace mirrorflow {

// Calls `run` until it succeeds on all workers. All workers must call this. Returns its error if
// that is not the loss of a worker (IsLostWorker), if JoinOptions::rejoin_timeout is 0, or if not
// all workers return within that time. Without other workers, calls `run` once.
//
// Calls `on_loss` with the loss of a worker before it waits for all to return. The loss may also
// come after this worker's `run`, while it waits for the others to end theirs.
absl::Status RunWithRejoin(
    Strategy& strategy, absl::FunctionRef<absl::Status()> run,
    absl::FunctionRef<void(const absl::Status& loss)> on_loss = [](const absl::Status&) {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_RUN_WITH_REJOIN_H_
