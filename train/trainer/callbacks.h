// SPDX-License-Identifier: Apache-2.0
//
// The built-in callbacks for Trainer::Fit. Those that also exist in Keras have Keras' names and
// defaults.
//
//   EarlyStopping stopping({.monitor = "val_loss", .patience = 3});
//   ModelCheckpoint best("best.safetensors", {.save_best_only = true});
//   trainer->Fit(train, {.epochs = 50, .validation = test, .callbacks = {&stopping, &best}});
//
// Errors: Fit returns InvalidArgument if a numeric option is out of range, NaN or infinite, or if
// there is no metric with the name that a callback monitors.
#ifndef MIRRORFLOW_TRAIN_TRAINER_CALLBACKS_H_
#define MIRRORFLOW_TRAIN_TRAINER_CALLBACKS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/core/tensor.h"
#include "train/trainer/callback.h"
#include "train/trainer/preemption.h"
#include "train/trainer/progress.h"

namespace mirrorflow {

// Whether smaller or larger values of the monitored metric are better. With kAuto, larger values
// are better if the metric's name contains `acc`, `auc`, `precision`, `recall`, `f1` or `iou`;
// otherwise, smaller values are.
enum class MonitorMode { kAuto, kMin, kMax };

// Tracks the best value of a metric. The callbacks below use it.
class Monitor {
 public:
  Monitor(std::string name, MonitorMode mode, double min_delta);
  // Returns whether the metric's value in `logs` beats the best value so far by more than
  // `min_delta`; if so, it becomes the best value. If `logs` lacks the metric, returns
  // InvalidArgument and lists the available names.
  absl::StatusOr<bool> Improves(const Logs& logs);
  const std::string& name() const { return name_; }
  double best() const { return best_; }
  void Reset();
  // Describes the metric and the direction. Best values of two monitors are comparable only if
  // their descriptions are equal.
  std::string Description() const;
  void Save(StateDict& saved) const { saved.Set("best", best_); }
  absl::Status Load(const StateDict& saved) { return saved.Get("best", &best_); }

 private:
  const std::string name_;
  const bool larger_is_better_;
  const double min_delta_;
  double best_;
};

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";  // a name in TrainingState::logs
  double min_delta = 0;              // a smaller change is not an improvement
  int64_t patience = 0;              // epochs without improvement before training stops
  MonitorMode mode = MonitorMode::kAuto;
  // Whether to restore all variables to their values from the best epoch when training ends.
  // Checkpoints contain both the best values and those of the last step; a resumed run continues
  // from the latter.
  bool restore_best_weights = false;
};
// Stops training after `patience` epochs without a new best value of the monitored metric.
class EarlyStopping final : public Callback {
 public:
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});
  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnEpochEnd(TrainingState& state) override;
  absl::Status OnTrainEnd(TrainingState& state) override;
  absl::Status SaveState(TrainingState& state, StateDict& saved) const override;
  absl::Status LoadState(TrainingState& state, const StateDict& saved) override;
  std::string state_key() const override;

 private:
  const EarlyStoppingOptions options_;
  Monitor monitor_;
  int64_t waited_ = 0;
  bool has_best_weights_ = false;
  std::map<std::string, Tensor> best_weights_;  // on worker 0 only
};

struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;
  int64_t patience = 10;  // epochs without improvement before the rate is reduced
  double min_delta = 1e-4;
  int64_t cooldown = 0;  // epochs after a reduction that do not count towards `patience`
  double min_lr = 0;
  MonitorMode mode = MonitorMode::kAuto;
  std::string variable = "learning_rate";  // the name of the schedules::Adjustable
};
// Multiplies the learning rate by `factor`, in [0, 1), after `patience` epochs without an
// improvement of the monitored metric, down to `min_lr`. Also adds the rate to the logs, as
// `learning_rate`. The optimizer's learning rate must be a schedules::Adjustable; otherwise, Fit
// returns InvalidArgument.
class ReduceLROnPlateau final : public Callback {
 public:
  explicit ReduceLROnPlateau(const ReduceLROnPlateauOptions& options = {});
  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnEpochEnd(TrainingState& state) override;
  absl::Status SaveState(TrainingState& state, StateDict& saved) const override;
  absl::Status LoadState(TrainingState& state, const StateDict& saved) override;
  std::string state_key() const override;

 private:
  const ReduceLROnPlateauOptions options_;
  Monitor monitor_;
  int64_t waited_ = 0;
  int64_t cooling_ = 0;
};

struct ModelCheckpointOptions {
  std::string monitor = "val_loss";
  // If true, the file is written only after an epoch with a new best value. If false, after each
  // epoch.
  bool save_best_only = false;
  MonitorMode mode = MonitorMode::kAuto;
};
// Saves the variables to the file `path` (SaveVariables), replacing its contents. A resumed run
// remembers the best value. To resume training, use a CheckpointManager instead.
class ModelCheckpoint final : public Callback {
 public:
  explicit ModelCheckpoint(std::string path, const ModelCheckpointOptions& options = {});
  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnEpochEnd(TrainingState& state) override;
  absl::Status SaveState(TrainingState& state, StateDict& saved) const override;
  absl::Status LoadState(TrainingState& state, const StateDict& saved) override;
  std::string state_key() const override;

 private:
  const std::string path_;
  const ModelCheckpointOptions options_;
  Monitor monitor_;
};

// Writes each epoch's logs as a line of a CSV file with a header, on worker 0. A run that starts
// from scratch replaces the file. A resumed run keeps the lines for epochs before its checkpoint
// and drops the lines for later epochs, which it runs again. A value that first appears in a later
// epoch gets a new column.
class CsvLog final : public Callback {
 public:
  explicit CsvLog(std::string path) : path_(std::move(path)) {}
  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnEpochEnd(TrainingState& state) override;
  absl::Status OnTrainEnd(TrainingState& state) override;
  absl::Status SaveState(TrainingState& state, StateDict& saved) const override;
  absl::Status LoadState(TrainingState& state, const StateDict& saved) override;
  std::string state_key() const override { return absl::StrCat("CsvLog(", path_, ")"); }

 private:
  // Reads the header and the lines for epochs up to `last`. Does nothing if the file does not
  // exist.
  absl::Status Read(int64_t last);
  // Adds a column for each value in `logs` that has no column.
  void AddColumns(const Logs& logs);
  // Appends the last line if the file already has all other lines; otherwise rewrites the file.
  absl::Status Write();

  const std::string path_;
  std::vector<std::string> columns_;
  std::vector<std::string> lines_;  // after the header
  bool has_other_lines_ = false;    // the file has all lines, except perhaps the last
  int64_t last_epoch_ = 0;
};

// Shows progress on stderr, as a bar or as log lines (see Progress in progress.h). With kAuto, only
// worker 0 shows it. `run` describes the run in the banner at the start.
class ProgressBar final : public Callback {
 public:
  explicit ProgressBar(LogFormat format = LogFormat::kAuto, RunDescription run = {});
  // Shows progress on `host` instead of stderr. The host must outlive the callback.
  ProgressBar(ProgressHost& host, LogFormat format, RunDescription run);
  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnStepBegin(TrainingState& state) override;
  absl::Status OnStep(TrainingState& state) override;
  absl::Status OnEpochEnd(TrainingState& state) override;
  absl::Status OnTrainEnd(TrainingState& state) override;

  // Returns null outside of training.
  Progress* progress() { return progress_.has_value() ? &*progress_ : nullptr; }

 private:
  // Starts to display the epoch, with its first `batches` batches done, unless it is already shown.
  void BeginEpoch(const TrainingState& state, int64_t batches);

  const std::unique_ptr<ProgressHost> own_host_;
  ProgressHost& host_;
  const LogFormat format_;
  RunDescription run_;
  std::optional<Progress> progress_;
  bool is_in_epoch_ = false;  // the display shows the current epoch
};

// Stops all workers after the same step when one of them receives SIGTERM or SIGINT
// (PreemptionHandler), so that a checkpoint can be saved before the process ends. Training also
// stops during a validation, and between the batches of a Trainer::Predict in an event that a
// resumed run repeats (Callback::OnInferenceStepBegin). Fit then returns a result with `stopped`
// set, and signal() returns the signal. The callback handles the signals only while Fit runs. To
// get PreemptionHandler's exit codes for signals before that, call PreemptionHandler::TakeSignals
// early in main.
class StopOnSignal final : public Callback {
 public:
  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnStepBegin(TrainingState& state) override;
  absl::Status OnInferenceStepBegin(TrainingState& state) override;
  absl::Status OnTrainEnd(TrainingState& state) override;
  void OnException(TrainingState& state, const absl::Status& why) override;

  // Returns the signal that stopped training, the same on all workers, or nullopt if none did.
  std::optional<int> signal() const { return signal_; }

 private:
  std::unique_ptr<PreemptionHandler> handler_;
  std::optional<int> signal_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_CALLBACKS_H_
