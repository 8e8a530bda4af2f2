// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/fit_loop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "framework/core/failpoint.h"
#include "framework/core/log.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/runtime/failure.h"

namespace mirrorflow {
namespace {

Failpoint step_failpoint("train/step");
Failpoint epoch_end_failpoint("train/epoch_end");

constexpr char kDataset[] = "dataset", kStepsPerEpoch[] = "steps_per_epoch";
constexpr char kFit[] = "fit/", kCallbacks[] = "callbacks/";

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool DividesFiles(const FitOptions& options) {
  return options.distribute.auto_shard_policy == AutoShardPolicy::kFile;
}

// Returns the number of steps per epoch, if it is known. If each worker reads its own files, no
// worker can tell how many batches an epoch has.
std::optional<int64_t> StepsOf(const Dataset& dataset, const Strategy& strategy,
                               const FitOptions& options) {
  if (DividesFiles(options) && strategy.topology().num_workers() > 1) return std::nullopt;
  return dataset.size();
}

// Returns InvalidArgument if training cannot resume at `options.start`. If the workers divide the
// files, the numbers of workers and replicas determine which rows the epoch has already used.
absl::Status CheckStart(const Topology& topology, const FitOptions& options) {
  const TrainingPosition& start = options.start;
  if (!DividesFiles(options) || start.batch == 0 || start.num_workers == 0) return absl::OkStatus();
  const int workers = topology.num_workers(), replicas = topology.world_size();
  if (start.num_workers == workers && start.num_replicas == replicas) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Fit() start: with AutoShardPolicy FILE, the numbers of workers and replicas must not change "
      "within an epoch (batch ",
      start.batch, " of epoch ", start.epoch + 1, "); expected ", start.num_workers,
      " workers and ", start.num_replicas, " replicas, got ", workers, " and ", replicas));
}

}  // namespace

Trainer::Loop::Loop(Trainer& trainer, const Dataset& dataset, const FitOptions& options)
    : trainer_(trainer),
      dataset_(dataset),
      options_(options),
      state_{.strategy = trainer.strategy_,
             .session = *trainer.session_,
             .epochs = options.epochs,
             .has_checkpoints = options.checkpoints != nullptr,
             .position = options.start} {}

absl::StatusOr<TrainResult> Trainer::Loop::Run() {
  MF_ASSIGN_OR_RETURN(callbacks_, Annotate(CallbackList::Create(options_.callbacks), "Fit()"));
  MF_RETURN_IF_ERROR(CheckStart(trainer_.strategy_.topology(), options_));
  state_.steps_per_epoch = StepsOf(dataset_, trainer_.strategy_, options_);
  MF_RETURN_IF_ERROR(Call(&Callback::OnTrainBegin));
  MF_RETURN_IF_ERROR(Resume());
  is_saved_ = true;
  is_training_ = true;
  const absl::Status trained = Train();
  is_training_ = false;
  if (!state_.interrupted || !absl::IsCancelled(trained)) MF_RETURN_IF_ERROR(trained);
  // Save before OnTrainEnd, because callbacks can replace the variables in it.
  result_.last_save = SaveLast();
  // A numeric error means that the variables are unusable.
  if (IsNumericError(result_.last_save)) return result_.last_save;
  MF_RETURN_IF_ERROR(AddPartialEpoch());
  MF_RETURN_IF_ERROR(Call(&Callback::OnTrainEnd));
  return MakeResult();
}

void Trainer::Loop::Fail(const absl::Status& why) { callbacks_.OnException(state_, why); }

absl::Status Trainer::Loop::BeginInferenceStep() {
  if (!is_training_) return absl::OkStatus();
  MF_RETURN_IF_ERROR(Call(&Callback::OnInferenceStepBegin));
  // Cut short only work that a resumed run can repeat: the events of a step are not called twice.
  const bool ends_now = state_.interrupted && before_;
  return ends_now ? absl::CancelledError(*state_.interrupted) : absl::OkStatus();
}

absl::Status Trainer::Loop::Resume() {
  fit_.has_begun_epoch = options_.start.batch > 0;
  const CheckpointManager* const checkpoints = options_.checkpoints;
  // Checkpoints from older builds and from custom training loops do not have this state.
  if (checkpoints == nullptr || !checkpoints->state().Has(absl::StrCat(kFit, "stage"))) {
    return absl::OkStatus();
  }
  if (checkpoints->last_step() != options_.start.step) {
    return absl::InvalidArgumentError(
        absl::StrCat("Fit() start: pass the position that Restore() returned; expected step ",
                     checkpoints->last_step(), ", got step ", options_.start.step));
  }
  MF_RETURN_IF_ERROR(CheckDataset(checkpoints->state()));
  MF_RETURN_IF_ERROR(Annotate(fit_.Load(checkpoints->state().WithPrefix(kFit)), "checkpoint"));
  state_.logs = fit_.last_epoch;
  state_.loss = fit_.loss;
  state_.rows = fit_.rows;
  const StateDict saved = checkpoints->state().WithPrefix(kCallbacks);
  if (const std::vector<std::string> unused = callbacks_.UnusedKeys(saved);
      !unused.empty() && state_.is_chief()) {
    LogWarning(
        absl::StrCat("the checkpoint has state for callbacks that were not passed to Fit(): ",
                     absl::StrJoin(unused, ", ")));
  }
  return Annotate(callbacks_.LoadState(state_, saved), "checkpoint");
}

absl::Status Trainer::Loop::CheckDataset(const StateDict& state) const {
  if (options_.accept_other_dataset) return absl::OkStatus();
  // The checkpoint describes only worker 0's dataset; the other workers have different datasets.
  if (options_.distribute.auto_shard_policy == AutoShardPolicy::kOff &&
      trainer_.strategy_.topology().num_workers() > 1) {
    return absl::OkStatus();
  }
  std::string saved;
  if (state.Has(kDataset)) MF_RETURN_IF_ERROR(state.Get(kDataset, &saved));
  const auto differs = [](absl::string_view saved, absl::string_view got) {
    return absl::InvalidArgumentError(
        absl::StrCat("Fit() dataset: differs from the checkpoint's dataset; expected ", saved,
                     ", got ", got, "; set FitOptions::accept_other_dataset to resume anyway"));
  };
  if (!saved.empty() && saved != dataset_.ToString()) return differs(saved, dataset_.ToString());
  int64_t steps = 0;
  if (!state.Has(kStepsPerEpoch) || !state_.steps_per_epoch) return absl::OkStatus();
  MF_RETURN_IF_ERROR(state.Get(kStepsPerEpoch, &steps));
  if (steps == *state_.steps_per_epoch) return absl::OkStatus();
  return differs(absl::StrCat(steps, " batches"),
                 absl::StrCat(*state_.steps_per_epoch, " batches"));
}

absl::Status Trainer::Loop::Call(CallbackList::Event event) {
  is_saved_ = false;  // callbacks may have changed their state
  return callbacks_.Call(event, state_);
}

bool Trainer::Loop::is_over() const {
  if (state_.interrupted) return true;
  if (fit_.stage != Stage::kStep) return false;
  if (state_.stopped) return true;
  const TrainingPosition& at = state_.position;
  return options_.steps > 0 ? at.step >= options_.steps : at.epoch >= options_.epochs;
}

absl::Status Trainer::Loop::Train() {
  // The previous run may have been killed after its last step but before it ended the epoch.
  const TrainingPosition& at = state_.position;
  const bool is_at_limit = options_.steps > 0 && at.step >= options_.steps && at.batch > 0;
  if (is_at_limit && is_over() && !state_.stopped) MF_RETURN_IF_ERROR(RunEpoch());
  while (!is_over()) MF_RETURN_IF_ERROR(RunEpoch());
  return absl::OkStatus();
}

absl::Status Trainer::Loop::RunEpoch() {
  state_.logs.clear();
  if (!std::exchange(fit_.has_begun_epoch, true)) MF_RETURN_IF_ERROR(Call(&Callback::OnEpochBegin));
  if (fit_.stage == Stage::kValidation) MF_RETURN_IF_ERROR(EndStage());
  const bool continues = !state_.stopped && !state_.interrupted;
  if (fit_.stage == Stage::kStep && continues) MF_RETURN_IF_ERROR(RunSteps());
  return fit_.stage == Stage::kEpochEnd && !is_over() ? EndEpoch() : absl::OkStatus();
}

// Runs steps until the epoch's batches are used up or training ends.
absl::Status Trainer::Loop::RunSteps() {
  TrainingPosition& at = state_.position;
  DistributedDataset input =
      trainer_.strategy_.Distribute(dataset_.Skip(at.batch), at.epoch, options_.distribute);
  // Check the limit only after reading a batch: if the dataset has no more batches, the epoch has
  // also ended.
  for (DistributedBatch batch; input.Next(&batch);) {
    if (is_over()) return absl::OkStatus();
    if (!std::exchange(fit_.has_begun_step, true)) MF_RETURN_IF_ERROR(Call(&Callback::OnStepBegin));
    if (is_over()) {
      if (state_.stopped && at.batch > 0) fit_.stage = Stage::kEpochEnd;
      return absl::OkStatus();
    }
    MF_RETURN_IF_ERROR(RunStep(batch));
    if (fit_.stage == Stage::kEpochEnd) return absl::OkStatus();
  }
  MF_RETURN_IF_ERROR(input.status());
  if (at.batch == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "epoch ", at.epoch + 1, ": the dataset is empty; expected at least one batch, got none"));
  }
  fit_.stage = Stage::kEpochEnd;
  return absl::OkStatus();
}

absl::Status Trainer::Loop::RunStep(const DistributedBatch& batch) {
  TrainingPosition& at = state_.position;
  MF_RETURN_IF_ERROR(step_failpoint.Pass());
  const MonotonicTime begin = MonotonicTime::Now();
  MF_ASSIGN_OR_RETURN(state_.loss, trainer_.TrainStep(batch));
  if (!std::exchange(is_first_step_, false)) {  // the first step compiles, so it is not timed
    step_ms_.push_back(absl::ToDoubleMilliseconds(MonotonicTime::Now() - begin));
    host_us_.push_back(absl::ToDoubleMicroseconds(trainer_.train_.host_time()));
  }
  ++at.step;
  ++at.batch;
  fit_.has_begun_step = false;
  state_.rows = batch.num_rows();
  fit_.epoch_loss.Add(state_.loss, state_.rows);
  largest_batch_ = std::max(largest_batch_, state_.rows);
  if (options_.checkpoints != nullptr) state_.checkpoint_time = options_.checkpoints->newest_time();
  MF_RETURN_IF_ERROR(Call(&Callback::OnStep));
  if (options_.on_step) MF_RETURN_IF_ERROR(options_.on_step(at.step, state_.loss));
  if (!std::isfinite(state_.loss)) {
    return EndTogether(NumericError(absl::OutOfRangeError(absl::StrCat(
        "step ", at.step, ": the loss is not finite; expected a number, got ", state_.loss))));
  }
  if (is_due(options_.check_replicas)) {
    const absl::Status same = trainer_.session_->CheckReplicas();
    const absl::Status why = Annotate(same, absl::StrCat("step ", at.step));
    if (IsNumericError(same)) return EndTogether(why);
    MF_RETURN_IF_ERROR(why);
  }
  // Set the stage before the checkpoint, so that a resumed run does the work that remains.
  if (state_.stopped) {
    fit_.stage = Stage::kEpochEnd;
  } else if (options_.validation && is_due(options_.validation_steps)) {
    fit_.stage = Stage::kValidation;
  }
  if (options_.checkpoints != nullptr && is_due(options_.checkpoint_every)) {
    MF_RETURN_IF_ERROR(Save());
  }
  return fit_.stage == Stage::kValidation ? EndStage() : absl::OkStatus();
}

absl::Status Trainer::Loop::EndStage() {
  const bool is_epoch_end = fit_.stage == Stage::kEpochEnd;
  if (!fit_.has_training_logs) {
    if (is_epoch_end) fit_.logs["loss"] = fit_.epoch_loss.value();
    MF_RETURN_IF_ERROR(trainer_.TakeMetrics(&fit_.logs));
    fit_.has_training_logs = true;
  }
  if (options_.validation && !fit_.has_validation_logs) {
    MF_ASSIGN_OR_RETURN(before_, MakeSnapshot());
    MF_ASSIGN_OR_RETURN(const Logs values,
                        trainer_.Evaluate(*options_.validation,
                                          {.compare_data = options_.distribute.compare_data}));
    for (const auto& [name, value] : values) fit_.logs[absl::StrCat("val_", name)] = value;
    fit_.has_validation_logs = true;
  }
  MF_ASSIGN_OR_RETURN(before_, MakeSnapshot());
  state_.logs = fit_.logs;
  if (options_.validation) MF_RETURN_IF_ERROR(Call(&Callback::OnValidationEnd));
  if (is_epoch_end) MF_RETURN_IF_ERROR(Call(&Callback::OnEpochEnd));
  before_.reset();
  fit_.EndStage();
  // If a callback stops training after a validation within an epoch, the epoch also ends.
  if (!is_epoch_end && state_.stopped) fit_.stage = Stage::kEpochEnd;
  return absl::OkStatus();
}

absl::Status Trainer::Loop::EndEpoch() {
  MF_RETURN_IF_ERROR(EndStage());
  MF_RETURN_IF_ERROR(epoch_end_failpoint.Pass());
  fit_.last_epoch = state_.logs;
  result_.history.push_back(state_.logs);
  fit_.epoch_loss = MeanLoss();
  fit_.has_begun_epoch = false;
  ++state_.position.epoch;  // even if StopTraining has ended the epoch early
  state_.position.batch = 0;
  return absl::OkStatus();
}

absl::StatusOr<Trainer::Loop::Snapshot> Trainer::Loop::MakeSnapshot() {
  Snapshot snapshot = {.reading_step = trainer_.session_->reading_step()};
  if (options_.checkpoints != nullptr) {
    MF_ASSIGN_OR_RETURN(snapshot.callbacks, callbacks_.SaveState(state_));
  }
  return snapshot;
}

absl::Status Trainer::Loop::Save() {
  Snapshot snapshot;
  if (before_) {
    snapshot = *before_;
    trainer_.session_->SetReadingStep(snapshot.reading_step);
  } else {
    MF_ASSIGN_OR_RETURN(snapshot, MakeSnapshot());
  }
  fit_.loss = state_.loss;
  fit_.rows = state_.rows;
  StateDict fit, state;
  fit_.Save(fit);
  state.Merge(kFit, fit);
  state.Merge(kCallbacks, snapshot.callbacks);
  state.Set(kDataset, dataset_.ToString());
  if (state_.steps_per_epoch) state.Set(kStepsPerEpoch, *state_.steps_per_epoch);
  is_saved_ = true;
  return options_.checkpoints->Save(state_.position, std::move(state));
}

absl::Status Trainer::Loop::SaveLast() {
  if (options_.checkpoints == nullptr) return absl::OkStatus();
  // Before the first step, there is nothing to save.
  if (!is_saved_ && state_.position.step > 0) MF_RETURN_IF_ERROR(Save());
  return options_.checkpoints->WaitForSave();
}

absl::Status Trainer::Loop::AddPartialEpoch() {
  if (fit_.epoch_loss.rows == 0 || state_.interrupted || state_.stopped) {
    return absl::OkStatus();
  }
  state_.logs = {{"loss", fit_.epoch_loss.value()}};
  MF_RETURN_IF_ERROR(trainer_.TakeMetrics(&state_.logs));
  result_.history.push_back(state_.logs);
  return absl::OkStatus();
}

TrainResult Trainer::Loop::MakeResult() {
  result_.steps = state_.position.step;
  const Logs& last = result_.history.empty() ? fit_.last_epoch : result_.history.back();
  const auto loss = last.find("loss");
  if (loss != last.end()) result_.loss = loss->second;
  result_.stopped = state_.interrupted ? state_.interrupted : state_.stopped;
  result_.median_step_ms = Median(std::move(step_ms_));
  result_.median_host_us = Median(std::move(host_us_));
  if (result_.median_step_ms > 0) {
    result_.examples_per_s = static_cast<double>(largest_batch_) * 1000 / result_.median_step_ms;
  }
  return std::move(result_);
}

// Waits for a save in progress on any worker: when the first process ends, the launcher ends all
// others, including one that is still saving. If the save was rejected, its error explains why the
// loss is not finite, so it is appended.
absl::Status Trainer::Loop::EndTogether(const absl::Status& why) {
  if (options_.checkpoints == nullptr) return why;
  const absl::Status saved = options_.checkpoints->WaitForSave();
  if (!IsNumericError(saved)) return why;
  return NumericError(absl::Status(why.code(), absl::StrCat(why.message(), "; ", saved.message())));
}

}  // namespace mirrorflow
