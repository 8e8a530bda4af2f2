// SPDX-License-Identifier: Apache-2.0
//
// Callbacks for Trainer::Fit, with the names and defaults of Keras where it has them. Fit returns
// InvalidArgument for numeric options that are out of range, NaN or infinite.
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

// Whether a smaller or a larger value of a monitored metric is better. kAuto: larger for names that
// contain `acc`, `auc`, `precision`, `recall`, `f1` or `iou`, else smaller.
enum class MonitorMode { kAuto, kMin, kMax };

// The best value so far of a metric.
class Monitor {
 public:
  Monitor(std::string name, MonitorMode mode, double min_delta);
  // Whether the value in `logs` beats the best so far by more than min_delta; if so, it becomes the
  // best. InvalidArgument, with the names that exist, if it is missing.
  absl::StatusOr<bool> Improves(const Logs& logs);
  const std::string& name() const { return name_; }
  double best() const { return best_; }
  void Reset();
  // Names the metric and the direction. Best values compare if these are equal.
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
  std::string monitor = "val_loss";
  double min_delta = 0;
  int64_t patience = 0;  // epochs without an improvement before training stops
  MonitorMode mode = MonitorMode::kAuto;
  // When training is over, all variables are those of the best epoch. Checkpoints keep those of the
  // last step, from which training would go on, and the best ones beside them.
  bool restore_best_weights = false;
};
// Stops training when a metric no longer improves.
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
  std::map<std::string, Tensor> best_weights_;  // on worker 0
};

struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;
  int64_t patience = 10;  // epochs without an improvement
  double min_delta = 1e-4;
  int64_t cooldown = 0;  // epochs after a reduction that do not count
  double min_lr = 0;
  MonitorMode mode = MonitorMode::kAuto;
  std::string variable = "learning_rate";  // of schedules::Adjustable
};
// Multiplies the learning rate by `factor` when a metric no longer improves. The optimizer's
// learning rate must be schedules::Adjustable.
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
  bool save_best_only = false;  // else the file of every epoch replaces the one before
  MonitorMode mode = MonitorMode::kAuto;
};
// Saves the variables to a file after each epoch, or the best one (SaveVariables). A resumed run
// knows the best value so far.
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

// Writes the logs of each epoch as a line of a CSV file, which begins with a header. A run that
// starts anew replaces the file. A resumed run keeps the lines of the epochs before, and drops
// later ones, which it runs again. A value that the header lacks adds a column.
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
  // Takes the header and the lines of epochs up to `last` from the file, if it exists.
  absl::Status Read(int64_t last);
  // Adds columns for values that have none.
  void AddColumns(const Logs& logs);
  // Appends the last line if the file has all others, otherwise rewrites the file.
  absl::Status Write();

  const std::string path_;
  std::vector<std::string> columns_;
  std::vector<std::string> lines_;  // after the header
  bool has_other_lines_ = false;    // the file has all lines but, possibly, the last
  int64_t last_epoch_ = 0;
};

// Shows progress on stderr (Progress), on the worker that writes output.
class ProgressBar final : public Callback {
 public:
  explicit ProgressBar(LogFormat format = LogFormat::kAuto, RunDescription run = {});
  // With a host other than stderr, which must outlive the callback.
  ProgressBar(ProgressHost& host, LogFormat format, RunDescription run);
  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnStepBegin(TrainingState& state) override;
  absl::Status OnStep(TrainingState& state) override;
  absl::Status OnEpochEnd(TrainingState& state) override;
  absl::Status OnTrainEnd(TrainingState& state) override;

  // Null before training.
  Progress* progress() { return progress_.has_value() ? &*progress_ : nullptr; }

 private:
  // Unless the epoch has begun, after these batches of it.
  void BeginEpoch(const TrainingState& state, int64_t batches);

  const std::unique_ptr<ProgressHost> own_host_;
  ProgressHost& host_;
  const LogFormat format_;
  RunDescription run_;
  std::optional<Progress> progress_;
  bool is_in_epoch_ = false;  // and shows it
};

// Interrupts all workers after the same step when one of them receives SIGTERM or SIGINT
// (PreemptionHandler), even during a validation, or between the batches of Trainer::Predict during
// Fit. Fit then returns a result with `stopped`; signal() says which signal it was.
// Training takes the signals over. A program that calls PreemptionHandler::TakeSignals early in
// main also ends with PreemptionHandler's exit codes before that.
class StopOnSignal final : public Callback {
 public:
  absl::Status OnTrainBegin(TrainingState& state) override;
  absl::Status OnStepBegin(TrainingState& state) override;
  absl::Status OnInferenceStepBegin(TrainingState& state) override;
  absl::Status OnTrainEnd(TrainingState& state) override;
  void OnException(TrainingState& state, const absl::Status& why) override;

  // The signal that has stopped training, the same on all workers.
  std::optional<int> signal() const { return signal_; }

 private:
  std::unique_ptr<PreemptionHandler> handler_;
  std::optional<int> signal_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_TRAINER_CALLBACKS_H_
