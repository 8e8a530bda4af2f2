// SPDX-License-Identifier: Apache-2.0
//
// PreemptionHandler: turns SIGTERM and SIGINT to any worker, or to `mirrorflow coordinator`, into a
// stop of all workers after the same step, so that one checkpoint can be saved (as tf.distribute's
// PreemptionCheckpointHandler).
//
//   MF_RETURN_IF_ERROR(PreemptionHandler::TakeSignals());  // early in main
//   MF_ASSIGN_OR_RETURN(auto preemption, PreemptionHandler::Create(*session));
//   while (preemption->MayBegin()) …  // one step, or one batch of a validation
//
// StopOnSignal (callbacks.h) is a callback that has one.
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

// The exit code of a program that was asked to end, and that goes on when it starts again
// (EX_TEMPFAIL of sysexits.h).
inline constexpr int kPreemptedExitCode = 75;

class PreemptionHandler {
 public:
  // Takes over SIGTERM and SIGINT. Without a handler, they end the process at once, with
  // kPreemptedExitCode and 130, because there is nothing to save. A handler gets the first of them;
  // a second one ends the process at once, except for a SIGTERM repeated within 5 s, because all
  // processes of a job may receive it and pass it on. Has no effect after the first call.
  static absl::Status TakeSignals();

  // All workers must call this, and the methods of the result, at the same step. The session must
  // outlive the handler. FailedPrecondition if there is another one.
  static absl::StatusOr<std::unique_ptr<PreemptionHandler>> Create(Session& session);
  ~PreemptionHandler();

  // Call before each run of a step: of training, validation and prediction. Returns false after the
  // last run before the stop, which is the same on all workers.
  bool MayBegin();

  // Call after the last step. Returns the signal that has stopped training, the same on all
  // workers; nullopt if none has. Later signals no longer stop it.
  absl::StatusOr<std::optional<int>> Finish();

 private:
  explicit PreemptionHandler(Session& session);
  // Announces the signal that this worker receives.
  void WatchSignals();
  // Ends the wait of WatchWorkers on all workers with `why`, the number of a signal or kNoSignal,
  // unless it has already ended.
  void Announce(absl::string_view why);
  // Waits until a worker has received a signal, and agrees with all on the last run.
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
  absl::Status failure_ ABSL_GUARDED_BY(mu_);  // why the workers could not agree

  int end_of_threads_ = -1;  // an eventfd
  std::thread signals_, workers_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_PREEMPTION_H_
