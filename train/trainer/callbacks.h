// SPDX-License-Identifier: Apache-2.0
//
// Callbacks for Trainer::Fit, with Keras' names and defaults where Keras has the callback. Fit
// returns InvalidArgument for a numeric option that is out of range, NaN or infinite.
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

// Whether a smaller or a larger value of the monitored metric is better. kAuto: larger if the name
// contains `acc`, `auc`, `precision`, `recall`, `f1` or `iou`, otherwise smaller.
enum class MonitorMode { kAuto, kMin, kMax };

// Tracks the best value of a metric.
class Monitor {
 public:
  Monitor(std::string name, MonitorMode mode, double min_delta);
  // Returns whether the value in `logs` beats the best one so far by more than min_delta; if so, it
  // becomes the best. InvalidArgument, listing the available names, if the metric is missing.
  absl::StatusOr<bool> Improves(const Logs& logs);
  const std::string& name() const { return name_; }
  double best() const { return best_; }
  void Reset();
  // The metric and the direction. Two best values are comparable only if their descriptions are
  // equal.
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
  double min_delta = 0;              // only larger changes count as improvements
  int64_t patience = 0;              // how many epochs without improvement stop training
  MonitorMode mode = MonitorMode::kAuto;
  // At the end of training, restores all variables to their values from the best epoch. Checkpoints
  // hold the variables of the last step, from which training can continue, and the best ones in
  // addition.
  bool restore_best_weights = false;
};
// Stops training when a metric no longer improves: after `patience` epochs without a new best
// value.
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
  int64_t patience = 10;  // how many epochs without improvement reduce the rate
  double min_delta = 1e-4;
  int64_t cooldown = 0;  // how many epochs after a reduction are not counted
  double min_lr = 0;
  MonitorMode mode = MonitorMode::kAuto;
  std::string variable = "learning_rate";  // the name of the schedules::Adjustable
};
// Multiplies the learning rate by `factor` when a metric no longer improves. The optimizer's
// learning rate must be a schedules::Adjustable.
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
  bool save_best_only = false;  // otherwise each epoch overwrites the file
  MonitorMode mode = MonitorMode::kAuto;
};
// Saves the variables to a file after each epoch (SaveVariables), or only after epochs with a new
// best value. The best value survives a resume.
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

// Writes the logs of each epoch as a line of a CSV file with a header. A run that starts from
// scratch replaces the file. A resumed run keeps the lines of the epochs before its checkpoint and
// drops later ones, which it runs again. A log value without a column adds one.
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
  // Reads the header and the lines of epochs up to `last`. Does nothing if the file does not exist.
  absl::Status Read(int64_t last);
  // Adds a column for each value that has none.
  void AddColumns(const Logs& logs);
  // Appends the last line if the file already has all others; otherwise rewrites the file.
  absl::Status Write();

  const std::string path_;
  std::vector<std::string> columns_;
  std::vector<std::string> lines_;  // after the header
  bool has_other_lines_ = false;    // the file has every line except, possibly, the last
  int64_t last_epoch_ = 0;
};

// Shows progress on stderr (see Progress). By default, only worker 0 shows it.
class ProgressBar final : public Callback {
 public:
  explicit ProgressBar(LogFormat format = LogFormat::kAuto, RunDescription run = {});
  // Shows progress on `host` instead, which must outlive the callback.
  ProgressBar(ProgressHost& host, LogFormat format, RunDescription run);
  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnStepBegin(TrainingState& state) override;
  absl::Status OnStep(TrainingState& state) override;
  absl::Status OnEpochEnd(TrainingState& state) override;
  absl::Status OnTrainEnd(TrainingState& state) override;

  // Null outside of training.
  Progress* progress() { return progress_.has_value() ? &*progress_ : nullptr; }

 private:
  // Begins the epoch on the display if it has not begun, with `batches` of its batches done.
  void BeginEpoch(const TrainingState& state, int64_t batches);

  const std::unique_ptr<ProgressHost> own_host_;
  ProgressHost& host_;
  const LogFormat format_;
  RunDescription run_;
  std::optional<Progress> progress_;
  bool is_in_epoch_ = false;  // the epoch has begun on the display
};

// Stops all workers after the same step when one of them receives SIGTERM or SIGINT
// (PreemptionHandler). Also stops during a validation, and between the batches of a
// Trainer::Predict in an event that a resumed run repeats (Callback::OnInferenceStepBegin). Fit
// then returns a result with `stopped` set, and signal() returns the signal. The callback handles
// the signals while training runs. To get PreemptionHandler's exit codes before that, too, call
// PreemptionHandler::TakeSignals early in main.
class StopOnSignal final : public Callback {
 public:
  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnStepBegin(TrainingState& state) override;
  absl::Status OnInferenceStepBegin(TrainingState& state) override;
  absl::Status OnTrainEnd(TrainingState& state) override;
  void OnException(TrainingState& state, const absl::Status& why) override;

  // The signal that stopped training, the same on all workers; nullopt if none has.
  std::optional<int> signal() const { return signal_; }

 private:
  std::unique_ptr<PreemptionHandler> handler_;
  std::optional<int> signal_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_CALLBACKS_H_
