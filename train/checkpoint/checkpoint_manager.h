// SPDX-License-Identifier: Apache-2.0
//
// CheckpointManager: saves the complete training state to a directory while training continues, and
// resumes from it later, on any number of workers and replicas (like tf.train.CheckpointManager).
//
//   MF_ASSIGN_OR_RETURN(auto checkpoints,
//                       CheckpointManager::Create(*session, {.directory = "run/checkpoints"}));
//   MF_ASSIGN_OR_RETURN(TrainingPosition position, checkpoints->Restore());
//   trainer->Fit(…, {.start = position, .checkpoints = checkpoints.get(),
//                    .checkpoint_every = 100});
//
// Only worker 0 accesses the directory. It writes the files; when training resumes, it reads and
// verifies them, and sends the values to the other workers. It also logs training events there
// (EventLog). A checkpoint contains the variables, the optimizer's state, the step and the position
// in the dataset; Trainer::Fit also saves the state of its callbacks.
#ifndef MIRRORFLOW_TRAIN_CHECKPOINT_CHECKPOINT_MANAGER_H_
#define MIRRORFLOW_TRAIN_CHECKPOINT_CHECKPOINT_MANAGER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "framework/session/session.h"
#include "train/checkpoint/state_dict.h"

namespace mirrorflow {

struct CheckpointContents;
struct CheckpointManifest;

// A position in training: `step` steps have run, and the next batch is batch `batch` of epoch
// `epoch`. All numbers count from 0.
struct TrainingPosition {
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t batch = 0;
  // The numbers of workers and replicas of the job that saved the restored checkpoint; 0 if
  // training starts from the beginning.
  int num_workers = 0;
  int num_replicas = 0;  // of all workers

  friend bool operator==(const TrainingPosition&, const TrainingPosition&) = default;
};

// The treatment of existing checkpoints by Restore.
enum class Resume {
  // Resumes from the newest checkpoint, and fails if it is damaged. Starts from scratch if there is
  // no checkpoint.
  kAuto,
  kLatestValid,  // resumes from the newest undamaged checkpoint; fails if there is none
  kNever,        // starts from scratch; fails if there are checkpoints
};

class CheckpointManager {
 public:
  struct Options {
    std::string directory;  // created if it does not exist
    int keep = 2;           // how many checkpoints to keep; at least 2
    Resume resume = Resume::kAuto;
    // After this many consecutive failed saves, at least 1, Save returns ResourceExhausted. Before
    // that, Save only logs a failure, such as a full disk. It returns OutOfRange and Aborted after
    // the first failure (see Save).
    int max_failed_saves = 3;
    // Settings, by name, that must be equal when training resumes, such as the batch size.
    std::map<std::string, std::string> settings = {};
    // How long worker 0 waits for another job to stop using the directory. A log line names that
    // job every 5 s. Must be equal on all workers. If it is less than 45 s, a job that is restarted
    // shortly after worker 0's host has lost power fails.
    absl::Duration lock_timeout = absl::Minutes(5);
    // How long the other workers wait for worker 0 to read or write a checkpoint. Create waits
    // lock_timeout longer.
    absl::Duration timeout = absl::Minutes(30);
  };

  // Opens the directory, and makes this job its owner. All workers must call this, and each method
  // of the result, at the same step. The session must outlive the manager. Returns InvalidArgument
  // for options that are out of range; DeadlineExceeded, naming the owner, if another process uses
  // the directory for longer than lock_timeout; and the system's error if the directory cannot be
  // created or written to.
  static absl::StatusOr<std::unique_ptr<CheckpointManager>> Create(Session& session,
                                                                   const Options& options);
  // Blocks until the save in progress, if any, has ended. The session must still exist.
  ~CheckpointManager();

  // Sets the variables, Session::step() and state() from the checkpoint that Options::resume
  // selects. Returns the position at which training continues: the initial position if there is no
  // checkpoint. A variable that is synchronised on read (VariableSynchronization::kOnRead) is the
  // sum of one part per replica: each replica gets its part back if the number of replicas is the
  // same as when the checkpoint was saved; otherwise, replica 0 gets the sum.
  //
  // Returns DataLoss, naming the file, for a damaged checkpoint; InvalidArgument, listing the
  // differences, for a checkpoint of another model, seed or settings; NotFound if kLatestValid
  // finds no checkpoint; and AlreadyExists if kNever finds one. On an error, no variable changes.
  absl::StatusOr<TrainingPosition> Restore();

  // Returns the state in the checkpoint that Restore() read; empty if it read none, and after the
  // next Save. Only worker 0 has the state's tensors.
  const StateDict& state() const { return state_; }

  // Copies the variables, and writes the checkpoint in the background. `state` has what else the
  // caller needs in order to resume; only worker 0's `state` is saved.
  //
  // First waits until worker 0 has finished the previous save. If that save has failed, logs its
  // error and continues, with three exceptions. For these, this call returns an error and saves
  // nothing:
  //   OutOfRange: variables that an optimizer updates, or its state, were not finite (WaitForSave).
  //   Aborted: another job has taken over the directory.
  //   ResourceExhausted, with the last error: max_failed_saves saves in a row have failed.
  absl::Status Save(const TrainingPosition& position, StateDict state = {});

  // Blocks until all workers have the result of the last save, and returns its error, even the
  // first one. Must be called after the last save. Returns OutOfRange, naming the variables and the
  // newest earlier checkpoint, if variables that an optimizer updates, or its state, were not
  // finite; then no checkpoint was written, and earlier checkpoints are kept.
  absl::Status WaitForSave();

  // Returns when the newest checkpoint was written or, before the first save, restored. Returns
  // nullopt without a checkpoint, and always on workers other than 0. Thread-safe.
  std::optional<MonotonicTime> newest_time() const;

  // Returns the step of the last checkpoint that was saved or restored; -1 if there is none.
  int64_t last_step() const { return last_step_; }

 private:
  class Writer;  // on worker 0

  CheckpointManager(Session& session, const Options& options);
  absl::Status CheckOwn(const CheckpointContents& data) const;
  // Sets variables, steps and state from the checkpoint. Only worker 0 has its tensors.
  absl::Status TakeOver(const CheckpointManifest& manifest, CheckpointContents data);
  // Waits for the save in progress, if any. Sets `saved` to its result on all workers.
  absl::Status EndSave(absl::Status* saved);
  // Waits for the previous save. Returns its error if retrying cannot help, and ResourceExhausted
  // if too many saves in a row have failed; otherwise only logs its error.
  absl::Status ToleratePreviousSave();
  void LogNotSaved(const absl::Status& why) const;
  // Logs the session's workers.
  absl::Status LogWorkers();
  // Returns worker 0's result on all workers. The other workers pass an empty result, and wait for
  // up to Options::timeout plus `longer`.
  absl::StatusOr<std::string> TakeFromWorker0(const absl::StatusOr<std::string>& result,
                                              absl::Duration longer = absl::ZeroDuration());

  Session& session_;
  const Options options_;
  std::unique_ptr<Writer> writer_;
  int num_exchanges_ = 0;
  bool is_saving_ = false;
  int failed_saves_ = 0;  // consecutive
  int64_t last_step_ = -1;
  StateDict state_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_CHECKPOINT_CHECKPOINT_MANAGER_H_
