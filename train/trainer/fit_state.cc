// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/fit_state.h"

#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <typeinfo>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
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

std::string ClassName(const Callback& callback) {
  const char* const mangled = typeid(callback).name();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return name == nullptr ? mangled : name.get();
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
  state.Set("has_training_logs", has_training_logs);
  state.Set("has_validation_logs", has_validation_logs);
  SaveLogs(logs, kLogs, state);
  SaveLogs(last_epoch, kLastEpoch, state);
  if (!stopped) return;
  state.Set("stopped", *stopped);
  state.Set("stopped_by", stopped_by);
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
        absl::StrCat("state 'stage': expected a number from 0 to 2, got ", saved_stage));
  }
  stage = static_cast<Stage>(saved_stage);
  MF_RETURN_IF_ERROR(state.Get("has_training_logs", &has_training_logs));
  MF_RETURN_IF_ERROR(state.Get("has_validation_logs", &has_validation_logs));
  MF_RETURN_IF_ERROR(LoadLogs(state, kLogs, &logs));
  MF_RETURN_IF_ERROR(LoadLogs(state, kLastEpoch, &last_epoch));
  if (!state.Has("stopped")) return absl::OkStatus();
  MF_RETURN_IF_ERROR(state.Get("stopped", &stopped.emplace()));
  return state.Get("stopped_by", &stopped_by);
}

std::vector<std::string> CallbackKeys(absl::Span<Callback* const> callbacks) {
  std::map<std::string, int> counts;
  std::vector<std::string> keys;
  for (const Callback* const callback : callbacks) {
    std::string key = callback->state_key();
    if (key.empty()) key = ClassName(*callback);
    // A slash separates the key from the names of the entries. Keys may hold paths, of any bytes.
    key = absl::StrReplaceAll(absl::CEscape(key), {{"/", "."}});
    const int count = ++counts[key];
    keys.push_back(count == 1 ? key : absl::StrCat(key, "#", count));
  }
  return keys;
}

}  // namespace mirrorflow
