// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/fit_state.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr char kLogs[] = "logs/", kLastEpoch[] = "last_epoch/";

void SaveLogs(const Logs& logs, const char* prefix, StateDict& state) {
  for (const auto& [name, value] : logs) state.Set(absl::StrCat(prefix, name), value);
}

absl::Status LoadLogs(const StateDict& state, const char* prefix, Logs* logs) {
  logs->clear();
  const StateDict entries = state.WithPrefix(prefix);
  for (const auto& [name, text] : entries.values()) {
    MF_RETURN_IF_ERROR(entries.Get(name, &(*logs)[name]));
  }
  return absl::OkStatus();
}

}  // namespace

void FitState::EndStage() {
  stage = Stage::kStep;
  has_training_logs = has_validation_logs = false;
  logs.clear();
}

void FitState::Save(StateDict& state) const {
  state.Set("epoch_loss/sum", epoch_loss.sum);
  state.Set("epoch_loss/rows", epoch_loss.rows);
  state.Set("loss", loss);
  state.Set("rows", rows);
  state.Set("stage", static_cast<int>(stage));
  state.Set("has_begun_epoch", has_begun_epoch);
  state.Set("has_begun_step", has_begun_step);
  state.Set("has_training_logs", has_training_logs);
  state.Set("has_validation_logs", has_validation_logs);
  SaveLogs(logs, kLogs, state);
  SaveLogs(last_epoch, kLastEpoch, state);
}

absl::Status FitState::Load(const StateDict& state) {
  int64_t saved_stage;
  MF_RETURN_IF_ERROR(state.Get("epoch_loss/sum", &epoch_loss.sum));
  MF_RETURN_IF_ERROR(state.Get("epoch_loss/rows", &epoch_loss.rows));
  double saved_loss;
  MF_RETURN_IF_ERROR(state.Get("loss", &saved_loss));
  loss = static_cast<float>(saved_loss);
  MF_RETURN_IF_ERROR(state.Get("rows", &rows));
  MF_RETURN_IF_ERROR(state.Get("stage", &saved_stage));
  if (saved_stage < 0 || saved_stage > static_cast<int64_t>(Stage::kEpochEnd)) {
    return absl::InvalidArgumentError(
        absl::StrCat("state 'stage': expected an integer from 0 to 2, got ", saved_stage));
  }
  stage = static_cast<Stage>(saved_stage);
  MF_RETURN_IF_ERROR(state.Get("has_begun_epoch", &has_begun_epoch));
  MF_RETURN_IF_ERROR(state.Get("has_begun_step", &has_begun_step));
  MF_RETURN_IF_ERROR(state.Get("has_training_logs", &has_training_logs));
  MF_RETURN_IF_ERROR(state.Get("has_validation_logs", &has_validation_logs));
  MF_RETURN_IF_ERROR(LoadLogs(state, kLogs, &logs));
  return LoadLogs(state, kLastEpoch, &last_epoch);
}

}  // namespace mirrorflow
