// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/callbacks.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/core/file.h"
#include "framework/core/status.h"
#include "framework/core/system_error.h"
#include "framework/core/text.h"
#include "train/checkpoint/variables_file.h"
#include "train/numeric_options.h"

namespace mirrorflow {
namespace {

constexpr char kBestWeights[] = "best_weights/";
// The maximum size of a log that a resumed run continues. Short lines take 20 times their size in
// memory.
constexpr uint64_t kMaxLogBytes = uint64_t{16} << 20;

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

std::string Monitor::Description() const {
  return absl::StrCat(larger_is_better_ ? "max " : "min ", name_);
}

absl::StatusOr<bool> Monitor::Improves(const Logs& logs) {
  const auto it = logs.find(name_);
  if (it == logs.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "callback: metric '", name_, "' is missing; expected it in the logs, got ",
        absl::StrJoin(logs, ", ", [](std::string* out, const auto& log) { *out += log.first; }),
        absl::StartsWith(name_, "val_") ? "; val_ metrics require FitOptions::validation" : ""));
  }
  const bool better = larger_is_better_ ? it->second - min_delta_ > best_  //
                                        : it->second + min_delta_ < best_;
  if (better) best_ = it->second;
  return better;
}

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options)
    : options_(options), monitor_(options.monitor, options.mode, options.min_delta) {}

absl::Status EarlyStopping::OnTrainBegin(TrainingState&) {
  MF_RETURN_IF_ERROR(
      CheckNumbers("EarlyStopping", {{"min_delta", options_.min_delta, kAnyNumber},
                                     {"patience", options_.patience, kNotNegative}}));
  monitor_.Reset();
  waited_ = 0;
  has_best_weights_ = false;
  best_weights_.clear();
  return absl::OkStatus();
}

absl::Status EarlyStopping::OnEpochEnd(TrainingState& state) {
  MF_ASSIGN_OR_RETURN(const bool better, monitor_.Improves(state.logs));
  if (better) {
    waited_ = 0;
    if (!options_.restore_best_weights) return absl::OkStatus();
    // Use new tensors, because a checkpoint may still be writing the old ones.
    std::map<std::string, Tensor> weights;
    for (const std::string& name : state.session.VariableNames()) {
      MF_ASSIGN_OR_RETURN(weights[name], state.session.ReadVariable(name));
    }
    has_best_weights_ = true;
    if (state.is_chief()) best_weights_ = std::move(weights);
    return absl::OkStatus();
  }
  if (++waited_ < options_.patience) return absl::OkStatus();
  state.StopTraining(absl::StrFormat("early stopping: %s has not improved from %.4g for %d epochs",
                                     monitor_.name(), monitor_.best(), waited_));
  return absl::OkStatus();
}

absl::Status EarlyStopping::OnTrainEnd(TrainingState& state) {
  if (!options_.restore_best_weights || !has_best_weights_ || state.interrupted) {
    return absl::OkStatus();
  }
  return state.session.AssignFromWorker0(state.session.VariableNames(), best_weights_);
}

absl::Status EarlyStopping::SaveState(TrainingState&, StateDict& saved) const {
  monitor_.Save(saved);
  saved.Set("waited", waited_);
  saved.Set("has_best_weights", has_best_weights_);
  for (const auto& [name, value] : best_weights_) {
    saved.Set(absl::StrCat(kBestWeights, name), value);
  }
  return absl::OkStatus();
}

absl::Status EarlyStopping::LoadState(TrainingState& state, const StateDict& saved) {
  MF_RETURN_IF_ERROR(monitor_.Load(saved));
  MF_RETURN_IF_ERROR(saved.Get("waited", &waited_));
  MF_RETURN_IF_ERROR(saved.Get("has_best_weights", &has_best_weights_));
  best_weights_ = saved.WithPrefix(kBestWeights).tensors();
  // Training continues if `patience` is now larger than when training stopped.
  if (waited_ < options_.patience) state.stopped.reset();
  return absl::OkStatus();
}

std::string EarlyStopping::state_key() const {
  return absl::StrCat("EarlyStopping(", monitor_.Description(), ")");
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
      "ReduceLROnPlateau: the learning rate is not adjustable; expected an optimizer with a "
      "schedules::Adjustable named '",
      options_.variable, "', got no such variable"));
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

// Also saves the rate. If a later callback interrupts OnEpochEnd, this callback has already reduced
// the variable, and the resumed run must start from the saved rate, not from the reduced one.
absl::Status ReduceLROnPlateau::SaveState(TrainingState& state, StateDict& saved) const {
  monitor_.Save(saved);
  saved.Set("waited", waited_);
  saved.Set("cooling", cooling_);
  MF_ASSIGN_OR_RETURN(const Tensor rate, state.session.ReadVariable(options_.variable));
  saved.Set("rate", rate.scalar<float>());
  return absl::OkStatus();
}

absl::Status ReduceLROnPlateau::LoadState(TrainingState& state, const StateDict& saved) {
  MF_RETURN_IF_ERROR(monitor_.Load(saved));
  MF_RETURN_IF_ERROR(saved.Get("waited", &waited_));
  MF_RETURN_IF_ERROR(saved.Get("cooling", &cooling_));
  double rate;
  MF_RETURN_IF_ERROR(saved.Get("rate", &rate));
  return state.session.AssignVariable(options_.variable,
                                      Tensor::Scalar<float>(static_cast<float>(rate)));
}

std::string ReduceLROnPlateau::state_key() const {
  return absl::StrCat("ReduceLROnPlateau(", monitor_.Description(), ")");
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

absl::Status ModelCheckpoint::SaveState(TrainingState&, StateDict& saved) const {
  if (options_.save_best_only) monitor_.Save(saved);
  return absl::OkStatus();
}

absl::Status ModelCheckpoint::LoadState(TrainingState&, const StateDict& saved) {
  return options_.save_best_only ? monitor_.Load(saved) : absl::OkStatus();
}

std::string ModelCheckpoint::state_key() const {
  return absl::StrCat("ModelCheckpoint(", path_, ", ", monitor_.Description(), ")");
}

absl::Status CsvLog::OnTrainBegin(TrainingState& state) {
  columns_.clear();
  lines_.clear();
  has_other_lines_ = false;
  last_epoch_ = 0;
  if (!state.is_chief()) return absl::OkStatus();
  if (state.position.step == 0) return Write();
  MF_RETURN_IF_ERROR(CheckWritable(path_));
  return Read(state.position.epoch);
}

absl::Status CsvLog::SaveState(TrainingState&, StateDict& saved) const {
  saved.Set("epochs", last_epoch_);
  return absl::OkStatus();
}

absl::Status CsvLog::LoadState(TrainingState& state, const StateDict& saved) {
  int64_t last;
  MF_RETURN_IF_ERROR(saved.Get("epochs", &last));
  last_epoch_ = last;
  return state.is_chief() ? Read(last) : absl::OkStatus();
}

absl::Status CsvLog::Read(int64_t last) {
  columns_.clear();
  lines_.clear();
  if (access(path_.c_str(), F_OK) != 0) return absl::OkStatus();  // for example on a new host
  MF_ASSIGN_OR_RETURN(std::string text,
                      Annotate(ReadWholeFile(path_, kMaxLogBytes), "cannot continue the log"));
  // An editor on another system may have saved the file with different line endings. If the machine
  // crashed, zero bytes may follow the lines, and PlainText rejects the file.
  text = PlainText(text).value_or(text);
  // A killed process may have left an incomplete line.
  text.resize(text.rfind('\n') + 1);
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const size_t comma = line.find(',');
    const absl::string_view first = line.substr(0, comma);
    int64_t epoch;
    if (columns_.empty() && first == "epoch" && comma != line.npos) {
      columns_ = absl::StrSplit(line.substr(comma + 1), ',');
    } else if (absl::SimpleAtoi(first, &epoch) && epoch <= last) {
      lines_.emplace_back(line);
    }
  }
  return absl::OkStatus();
}

void CsvLog::AddColumns(const Logs& logs) {
  for (const auto& [name, value] : logs) {
    if (std::find(columns_.begin(), columns_.end(), name) != columns_.end()) continue;
    columns_.push_back(name);
    for (std::string& line : lines_) line += ',';
    has_other_lines_ = false;
  }
}

absl::Status CsvLog::OnEpochEnd(TrainingState& state) {
  last_epoch_ = state.position.epoch + 1;
  if (!state.is_chief()) return absl::OkStatus();
  AddColumns(state.logs);
  std::string line = absl::StrCat(last_epoch_);
  for (const std::string& name : columns_) {
    const auto it = state.logs.find(name);
    absl::StrAppend(&line, ",", it == state.logs.end() ? "" : absl::StrFormat("%.9g", it->second));
  }
  lines_.push_back(std::move(line));
  return Write();
}

absl::Status CsvLog::OnTrainEnd(TrainingState& state) {
  return state.is_chief() && !has_other_lines_ ? Write() : absl::OkStatus();
}

absl::Status CsvLog::Write() {
  if (!has_other_lines_) {
    std::string text;
    if (!columns_.empty()) text = absl::StrCat("epoch,", absl::StrJoin(columns_, ","), "\n");
    for (const std::string& line : lines_) absl::StrAppend(&text, line, "\n");
    MF_RETURN_IF_ERROR(WriteFileAtomically(path_, {text}));
    has_other_lines_ = true;
    return absl::OkStatus();
  }
  MF_ASSIGN_OR_RETURN(const int file, OpenForAppending(path_));
  const absl::Status written = AppendTo(file, path_, absl::StrCat(lines_.back(), "\n"));
  // Some file systems report a failed write only on close.
  if (close(file) != 0 && written.ok()) {
    return WriteError(errno, absl::StrCat(path_, ": cannot close"));
  }
  return written;
}

ProgressBar::ProgressBar(LogFormat format, RunDescription run)
    : own_host_(StderrHost()), host_(*own_host_), format_(format), run_(std::move(run)) {}

ProgressBar::ProgressBar(ProgressHost& host, LogFormat format, RunDescription run)
    : host_(host), format_(format), run_(std::move(run)) {}

absl::Status ProgressBar::OnTrainBegin(TrainingState& state) {
  progress_.emplace(
      host_, ProgressOptions{
                 .format = format_, .worker = state.strategy.worker(), .epochs = state.epochs});
  is_in_epoch_ = false;
  if (run_.replicas == 0) run_.replicas = state.strategy.num_replicas_in_sync();
  progress_->Start(run_);
  return absl::OkStatus();
}

// In a resumed run, the first event may be OnStepBegin, OnStep or OnEpochEnd.
void ProgressBar::BeginEpoch(const TrainingState& state, int64_t batches) {
  if (std::exchange(is_in_epoch_, true)) return;
  progress_->BeginEpoch(state.position.epoch + 1, state.steps_per_epoch, batches);
}

absl::Status ProgressBar::OnStepBegin(TrainingState& state) {
  BeginEpoch(state, state.position.batch);
  return absl::OkStatus();
}

absl::Status ProgressBar::OnStep(TrainingState& state) {
  BeginEpoch(state, state.position.batch - 1);
  const NamedValue loss[] = {{"loss", state.loss}};
  progress_->Step(state.rows, loss);
  return absl::OkStatus();
}

absl::Status ProgressBar::OnEpochEnd(TrainingState& state) {
  BeginEpoch(state, state.position.batch);
  std::vector<NamedValue> values;
  for (const auto& [name, value] : state.logs) {
    values.push_back({name == "loss" ? "mean_loss" : absl::string_view(name), value});
  }
  progress_->EndEpoch(values);
  is_in_epoch_ = false;
  return absl::OkStatus();
}

absl::Status ProgressBar::OnTrainEnd(TrainingState& state) {
  // The step limit has ended training in the middle of an epoch.
  if (is_in_epoch_ && !state.stopped && !state.interrupted) MF_RETURN_IF_ERROR(OnEpochEnd(state));
  if (!state.stopped && !state.interrupted) progress_->Finish();
  progress_ = std::nullopt;  // leaves the cursor on a new line
  return absl::OkStatus();
}

absl::Status StopOnSignal::OnTrainBegin(TrainingState& state) {
  signal_ = std::nullopt;
  handler_ = nullptr;
  MF_RETURN_IF_ERROR(PreemptionHandler::TakeSignals());
  MF_ASSIGN_OR_RETURN(handler_, PreemptionHandler::Create(state.session));
  return absl::OkStatus();
}

absl::Status StopOnSignal::OnStepBegin(TrainingState& state) {
  if (handler_ != nullptr && !handler_->MayBegin()) state.Interrupt("stopped by a signal");
  return absl::OkStatus();
}

absl::Status StopOnSignal::OnInferenceStepBegin(TrainingState& state) { return OnStepBegin(state); }

absl::Status StopOnSignal::OnTrainEnd(TrainingState&) {
  MF_ASSIGN_OR_RETURN(signal_, handler_->Finish());
  handler_ = nullptr;
  return absl::OkStatus();
}

void StopOnSignal::OnException(TrainingState&, const absl::Status&) { handler_ = nullptr; }

}  // namespace mirrorflow
