// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/callbacks.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "train/checkpoint/variables_file.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace {

bool LargerIsBetter(absl::string_view name, MonitorMode mode) {
  if (mode != MonitorMode::kAuto) return mode == MonitorMode::kMax;
  for (const char* const part : {"acc", "auc", "precision", "recall", "f1", "iou"}) {
    if (absl::StrContains(name, part)) return true;
  }
  return false;
}

}  // namespace

Monitor::Monitor(std::string name, MonitorMode mode, double min_delta)
    : name_(std::move(name)),
      larger_is_better_(LargerIsBetter(name_, mode)),
      min_delta_(std::abs(min_delta)) {
  Reset();
}

void Monitor::Reset() {
  const double infinity = std::numeric_limits<double>::infinity();
  best_ = larger_is_better_ ? -infinity : infinity;
}

absl::StatusOr<bool> Monitor::Improves(const Logs& logs) {
  const auto it = logs.find(name_);
  if (it == logs.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "callback: expected a metric '", name_, "', got ",
        absl::StrJoin(logs, ", ", [](std::string* out, const auto& log) { *out += log.first; }),
        absl::StartsWith(name_, "val_") ? "; Fit needs a validation set for it" : ""));
  }
  const bool better = larger_is_better_ ? it->second - min_delta_ > best_  //
                                        : it->second + min_delta_ < best_;
  if (better) best_ = it->second;
  return better;
}

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options)
    : options_(options), monitor_(options.monitor, options.mode, options.min_delta) {}

absl::Status EarlyStopping::OnTrainBegin(TrainingState&) {
  monitor_.Reset();
  waited_ = 0;
  best_weights_.clear();
  return absl::OkStatus();
}

absl::Status EarlyStopping::OnEpochEnd(TrainingState& state) {
  MF_ASSIGN_OR_RETURN(const bool better, monitor_.Improves(state.logs));
  if (better) {
    waited_ = 0;
    if (!options_.restore_best_weights) return absl::OkStatus();
    for (const std::string& name : state.session.VariableNames()) {
      MF_RETURN_IF_ERROR(state.session.CopyVariable(name, &best_weights_[name]));
    }
    return absl::OkStatus();
  }
  if (++waited_ < options_.patience) return absl::OkStatus();
  state.StopTraining(absl::StrFormat("early stopping: %s has not improved from %.4g for %d epochs",
                                     monitor_.name(), monitor_.best(), waited_));
  return absl::OkStatus();
}

absl::Status EarlyStopping::OnTrainEnd(TrainingState& state) {
  for (const auto& [name, value] : best_weights_) {
    MF_RETURN_IF_ERROR(state.session.AssignVariable(name, value));
  }
  return absl::OkStatus();
}

ReduceLROnPlateau::ReduceLROnPlateau(const ReduceLROnPlateauOptions& options)
    : options_(options), monitor_(options.monitor, options.mode, options.min_delta) {}

absl::Status ReduceLROnPlateau::OnTrainBegin(TrainingState& state) {
  const ReduceLROnPlateauOptions& o = options_;
  MF_RETURN_IF_ERROR(CheckNumbers("ReduceLROnPlateau", {{"factor", o.factor, kBelowOne},
                                                        {"patience", o.patience, kNotNegative},
                                                        {"min_delta", o.min_delta, kAnyNumber},
                                                        {"cooldown", o.cooldown, kNotNegative},
                                                        {"min_lr", o.min_lr, kNotNegative}}));
  monitor_.Reset();
  waited_ = cooling_ = 0;
  if (state.session.IsInitialized(options_.variable)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "ReduceLROnPlateau: expected an optimizer whose learning rate is schedules::Adjustable, with "
      "the variable '",
      options_.variable, "', got none"));
}

absl::Status ReduceLROnPlateau::OnEpochEnd(TrainingState& state) {
  MF_ASSIGN_OR_RETURN(const Tensor rate, state.session.ReadVariable(options_.variable));
  MF_ASSIGN_OR_RETURN(const absl::Span<float> value, rate.As<float>());
  state.logs["learning_rate"] = value[0];
  MF_ASSIGN_OR_RETURN(const bool better, monitor_.Improves(state.logs));
  if (cooling_ > 0) {
    --cooling_;
    waited_ = 0;
  }
  if (better) waited_ = 0;
  if (better || cooling_ > 0 || ++waited_ < options_.patience) return absl::OkStatus();
  const auto least = static_cast<float>(options_.min_lr);
  if (value[0] <= least) return absl::OkStatus();
  const float reduced = std::max(value[0] * static_cast<float>(options_.factor), least);
  cooling_ = options_.cooldown;
  waited_ = 0;
  return state.session.AssignVariable(options_.variable, Tensor::Scalar<float>(reduced));
}

ModelCheckpoint::ModelCheckpoint(std::string path, const ModelCheckpointOptions& options)
    : path_(std::move(path)), options_(options), monitor_(options.monitor, options.mode, 0) {}

absl::Status ModelCheckpoint::OnTrainBegin(TrainingState&) {
  monitor_.Reset();
  return absl::OkStatus();
}

absl::Status ModelCheckpoint::OnEpochEnd(TrainingState& state) {
  if (options_.save_best_only) {
    MF_ASSIGN_OR_RETURN(const bool better, monitor_.Improves(state.logs));
    if (!better) return absl::OkStatus();
  }
  return SaveVariables(state.session, path_);
}

CsvLog::~CsvLog() {
  if (file_ != nullptr) std::fclose(file_);
}

absl::Status CsvLog::OnTrainBegin(TrainingState& state) {
  columns_.clear();
  if (!state.is_chief()) return absl::OkStatus();
  if (file_ != nullptr) std::fclose(std::exchange(file_, nullptr));
  file_ = std::fopen(path_.c_str(), "w");
  if (file_ != nullptr) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot be written"));
}

absl::Status CsvLog::OnEpochEnd(TrainingState& state) {
  if (file_ == nullptr) return absl::OkStatus();
  if (columns_.empty()) {
    for (const auto& [name, value] : state.logs) columns_.push_back(name);
    MF_RETURN_IF_ERROR(Write(absl::StrCat("epoch,", absl::StrJoin(columns_, ","))));
  }
  std::string line = absl::StrCat(state.position.epoch + 1);
  for (const std::string& name : columns_) {
    const auto it = state.logs.find(name);
    absl::StrAppend(&line, ",", it == state.logs.end() ? "" : absl::StrFormat("%.9g", it->second));
  }
  return Write(line);
}

absl::Status CsvLog::OnTrainEnd(TrainingState&) {
  if (file_ == nullptr) return absl::OkStatus();
  if (std::fclose(std::exchange(file_, nullptr)) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot be written"));
}

absl::Status CsvLog::Write(const std::string& line) {
  // Flushed, so that the file tells the state of a run that goes on.
  if (std::fprintf(file_, "%s\n", line.c_str()) >= 0 && std::fflush(file_) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": cannot be written"));
}

ProgressBar::ProgressBar(LogFormat format, RunDescription run)
    : own_host_(StderrHost()), host_(*own_host_), format_(format), run_(std::move(run)) {}

ProgressBar::ProgressBar(ProgressHost& host, LogFormat format, RunDescription run)
    : host_(host), format_(format), run_(std::move(run)) {}

absl::Status ProgressBar::OnTrainBegin(TrainingState& state) {
  progress_.emplace(
      host_, ProgressOptions{
                 .format = format_, .worker = state.strategy.worker(), .epochs = state.epochs});
  if (run_.replicas == 0) run_.replicas = state.strategy.num_replicas_in_sync();
  progress_->Start(run_);
  return absl::OkStatus();
}

absl::Status ProgressBar::OnEpochBegin(TrainingState& state) {
  progress_->BeginEpoch(state.position.epoch + 1, state.steps_per_epoch, state.position.batch);
  return absl::OkStatus();
}

absl::Status ProgressBar::OnStep(TrainingState& state) {
  const NamedValue loss[] = {{"loss", state.loss}};
  progress_->Step(state.rows, loss);
  return absl::OkStatus();
}

absl::Status ProgressBar::OnEpochEnd(TrainingState& state) {
  std::vector<NamedValue> values;
  for (const auto& [name, value] : state.logs) {
    values.push_back({name == "loss" ? "mean_loss" : absl::string_view(name), value});
  }
  progress_->EndEpoch(values);
  return absl::OkStatus();
}

absl::Status ProgressBar::OnTrainEnd(TrainingState& state) {
  if (!state.stopped) progress_->Finish();
  progress_ = std::nullopt;  // leaves the cursor on a new line
  return absl::OkStatus();
}

absl::Status StopOnSignal::OnTrainBegin(TrainingState& state) {
  signal_ = std::nullopt;
  handler_ = nullptr;
  MF_RETURN_IF_ERROR(PreemptionHandler::TakeSignals());
  MF_ASSIGN_OR_RETURN(handler_, PreemptionHandler::Create(state.session, state.position.step));
  return absl::OkStatus();
}

absl::Status StopOnSignal::OnStepBegin(TrainingState& state) {
  if (!handler_->MayBegin(state.position.step + 1)) state.StopTraining("stopped by a signal");
  return absl::OkStatus();
}

absl::Status StopOnSignal::OnTrainEnd(TrainingState&) {
  MF_ASSIGN_OR_RETURN(signal_, handler_->Finish());
  handler_ = nullptr;
  return absl::OkStatus();
}

void StopOnSignal::OnException(TrainingState&, const absl::Status&) { handler_ = nullptr; }

}  // namespace mirrorflow
