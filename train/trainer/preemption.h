// SPDX-License-Identifier: Apache-2.0
//
// PreemptionHandler: stops all workers after the same step when any worker, or
// `mirrorflow coordinator`, receives SIGTERM or SIGINT. The workers can then save a checkpoint
// together. It is modelled on tf.distribute's PreemptionCheckpointHandler.
//
//   MF_RETURN_IF_ERROR(PreemptionHandler::TakeSignals());  // early in main
//   MF_ASSIGN_OR_RETURN(auto preemption, PreemptionHandler::Create(*session));
//   while (preemption->MayBegin()) …  // one step, or one batch of a validation
//
// StopOnSignal (callbacks.h) wraps it in a callback.
#ifndef MIRRORFLOW_TRAIN_TRAINER_PREEMPTION_H_
#define MIRRORFLOW_TRAIN_TRAINER_PREEMPTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/mutex.h"
#include "framework/session/session.h"

namespace mirrorflow {

// The exit code of a program that was asked to stop and that continues training when it is started
// again (EX_TEMPFAIL in sysexits.h).
inline constexpr int kPreemptedExitCode = 75;

class PreemptionHandler {
 public:
  // Installs handlers for SIGTERM and SIGINT in this process. While no PreemptionHandler exists,
  // there is nothing to save, and either signal ends the process immediately, with exit code
  // kPreemptedExitCode (SIGTERM) or 130 (SIGINT). While a PreemptionHandler exists, the first
  // signal starts the stop, and a second one ends the process immediately. A SIGTERM repeated
  // within 5 s is ignored, because each process of a job may receive it and pass it on. Calling
  // this again has no further effect. Returns the system's error if the handlers cannot be
  // installed.
  static absl::Status TakeSignals();

  // Creates the process's handler. All workers must call this, and the methods of the result, at
  // the same step. The session must outlive the handler. Returns FailedPrecondition if this process
  // already has a handler.
  static absl::StatusOr<std::unique_ptr<PreemptionHandler>> Create(Session& session);
  ~PreemptionHandler();

  // Call this before each run of a step, in training, validation and prediction. Returns false once
  // this worker has begun the last run before the stop; all workers stop after the same run.
  bool MayBegin();

  // Call this after the last step. Returns the signal that stopped training, the same on all
  // workers, or nullopt if none did. Signals that arrive later no longer stop training.
  absl::StatusOr<std::optional<int>> Finish();

 private:
  explicit PreemptionHandler(Session& session);
  // Waits until this worker receives a signal, and announces it.
  void WatchSignals();
  // Makes every worker's WatchWorkers return with `why`, a signal number or kNoSignal. Has no
  // effect on a WatchWorkers that has already returned.
  void Announce(absl::string_view why);
  // Waits until any worker has received a signal, then agrees with the other workers on the last
  // run.
  void WatchWorkers();
  absl::StatusOr<int64_t> AgreeOnLastRun();
  void StopThreads();

  Session& session_;
  const std::string key_;
  Mutex mu_;
  CondVar agreed_;
  int64_t begun_ ABSL_GUARDED_BY(mu_) = 0;     // how many runs have begun
  bool is_held_ ABSL_GUARDED_BY(mu_) = false;  // no run begins before last_run_ is known
  std::optional<int64_t> last_run_ ABSL_GUARDED_BY(mu_);
  absl::Status failure_ ABSL_GUARDED_BY(mu_);  // why the workers failed to agree

  int end_of_threads_ = -1;  // an eventfd
  std::thread signals_, workers_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_PREEMPTION_H_
