// SPDX-License-Identifier: Apache-2.0
//
// RunWithRejoin lets a job survive the loss of a worker without ending the other workers'
// processes, like Horovod's elastic run. Once another process has replaced the lost worker, all
// workers rejoin and call the same function again, which resumes from the last checkpoint.
//
//   const Dataset images = …;  // created once: it is not part of a session
//   return RunWithRejoin(*strategy, [&]() -> absl::Status {
//     Graph graph;
//     …  // build the model; create the trainer and the checkpoint manager, `checkpoints`
//     MF_ASSIGN_OR_RETURN(const TrainingPosition position, checkpoints->Restore());
//     return trainer->Fit(images, {.start = position, .checkpoints = checkpoints.get()}).status();
//   });
//
// The function must contain everything that the workers do together, from creating the first
// session to reading the last value. It must destroy all sessions and DistributedDatasets that it
// creates. A run that fails halfway must leave no effect that a restart of the program would not
// repair.
#ifndef MIRRORFLOW_DISTRIBUTE_STRATEGY_RUN_WITH_REJOIN_H_
#define MIRRORFLOW_DISTRIBUTE_STRATEGY_RUN_WITH_REJOIN_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "distribute/strategy/strategy.h"

namespace mirrorflow {

// Calls `run` until it succeeds on all workers. All workers must call this. Returns the error of
// `run` if it is not the loss of a worker, if JoinOptions::rejoin_timeout is 0, or if not all
// workers rejoin within that time. Returns FailedPrecondition if `run` has left a session or a
// DistributedDataset alive when the worker must rejoin. Without other workers, calls `run` once.
//
// When a worker is lost, calls `on_loss` with the error, and then waits for all workers to rejoin
// (or returns, if the options do not allow rejoining). A worker can also be lost after this
// worker's `run` has returned, while this function waits for the other workers to finish theirs.
absl::Status RunWithRejoin(
    Strategy& strategy, absl::FunctionRef<absl::Status()> run,
    absl::FunctionRef<void(const absl::Status& loss)> on_loss = [](const absl::Status&) {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_STRATEGY_RUN_WITH_REJOIN_H_
