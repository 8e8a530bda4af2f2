// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/tensor_board.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "framework/core/status.h"
#include "train/numeric_options.h"

namespace mirrorflow {

TensorBoard::TensorBoard(std::string log_dir, const TensorBoardOptions& options)
    : log_dir_(std::move(log_dir)), options_(options) {}

absl::Status TensorBoard::OnTrainBegin(TrainingState& state) {
  MF_RETURN_IF_ERROR(
      CheckNumbers("TensorBoard", {{"update_freq", options_.update_freq, kNotNegative},
                                   {"histogram_freq", options_.histogram_freq, kNotNegative}}));
  writer_ = nullptr;
  MF_RETURN_IF_ERROR(OnEpochBegin(state));  // a resumed run may be inside an epoch
  if (!state.is_chief()) return absl::OkStatus();
  EventFileOptions options;
  if (state.has_checkpoints || state.position.step > 0) {
    options.purge_step = state.position.step + 1;
  }
  options.keep_last_step = state.has_checkpoints;
  MF_ASSIGN_OR_RETURN(writer_, SummaryWriter::Open(log_dir_, options));
  return absl::OkStatus();
}

// Saves the events that have been written for the checkpoint's step. Other events of that step,
// such as those of OnEpochEnd, may follow the checkpoint. A resumed run therefore drops all events
// of the step and rewrites the saved ones.
absl::Status TensorBoard::SaveState(TrainingState& state, StateDict& saved) const {
  if (writer_ == nullptr) return absl::OkStatus();
  MF_RETURN_IF_ERROR(writer_->Flush());
  const std::vector<std::string> events = writer_->event_file().EventsOfStep(state.position.step);
  saved.Set("events", events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    saved.Set(absl::StrCat("event/", i),
              Tensor::Vector<uint8_t>(std::vector<uint8_t>(events[i].begin(), events[i].end())));
  }
  return absl::OkStatus();
}

absl::Status TensorBoard::LoadState(TrainingState& state, const StateDict& saved) {
  if (writer_ == nullptr) return absl::OkStatus();
  EventFileWriter& file = writer_->event_file();
  MF_RETURN_IF_ERROR(file.Purge(state.position.step));
  int64_t count;
  MF_RETURN_IF_ERROR(saved.Get("events", &count));
  for (int64_t i = 0; i < count; ++i) {
    Tensor event;
    MF_RETURN_IF_ERROR(saved.Get(absl::StrCat("event/", i), &event));
    MF_RETURN_IF_ERROR(file.AddSerializedEvent(
        {reinterpret_cast<const char*>(event.raw()), static_cast<size_t>(event.bytes())}));
  }
  return absl::OkStatus();
}

std::string TensorBoard::state_key() const { return absl::StrCat("TensorBoard(", log_dir_, ")"); }

absl::Status TensorBoard::OnEpochBegin(TrainingState&) {
  epoch_began_ = MonotonicTime::Now();
  epoch_rows_ = 0;
  return absl::OkStatus();
}

absl::Status TensorBoard::OnStep(TrainingState& state) {
  epoch_rows_ += state.rows;
  if (writer_ == nullptr || options_.update_freq <= 0) return absl::OkStatus();
  const int64_t step = state.position.step;
  if (step % options_.update_freq != 0) return absl::OkStatus();
  return writer_->AddScalar("loss/batch", state.loss, step);
}

absl::Status TensorBoard::OnEpochEnd(TrainingState& state) {
  const int64_t step = state.position.step;
  const double seconds = absl::ToDoubleSeconds(MonotonicTime::Now() - epoch_began_);
  // All workers read the variables, because some variables are sums over all workers.
  if (options_.histogram_freq > 0 && (state.position.epoch + 1) % options_.histogram_freq == 0) {
    MF_RETURN_IF_ERROR(AddHistograms(state));
  }
  if (writer_ == nullptr) return absl::OkStatus();
  for (const auto& [name, value] : state.logs) {
    absl::string_view metric = name;
    const bool is_validation = absl::ConsumePrefix(&metric, "val_");
    const std::string tag = metric == "learning_rate"
                                ? std::string(metric)
                                : absl::StrCat(metric, is_validation ? "/val" : "/train");
    MF_RETURN_IF_ERROR(writer_->AddScalar(tag, value, step));
  }
  if (seconds > 0) {
    MF_RETURN_IF_ERROR(writer_->AddScalar("examples_per_second",
                                          static_cast<double>(epoch_rows_) / seconds, step));
  }
  return absl::OkStatus();
}

absl::Status TensorBoard::OnTrainEnd(TrainingState&) {
  return writer_ == nullptr ? absl::OkStatus() : std::exchange(writer_, nullptr)->Close();
}

void TensorBoard::OnException(TrainingState&, const absl::Status&) { writer_ = nullptr; }

absl::Status TensorBoard::AddHistograms(TrainingState& state) {
  for (const std::string& name : state.session.VariableNames()) {
    MF_ASSIGN_OR_RETURN(const Tensor value, state.session.ReadVariable(name));
    if (writer_ == nullptr || !IsFloating(value.dtype())) continue;
    MF_RETURN_IF_ERROR(writer_->AddHistogram(name, value, state.position.step));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
