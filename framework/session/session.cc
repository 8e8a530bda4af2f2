// SPDX-License-Identifier: Apache-2.0
#include "framework/session/session.h"

#include <algorithm>
#include <utility>

#include "framework/core/status.h"
#include "framework/session/session_state.h"

namespace mirrorflow {

void StepOutputs::OutOfRange(size_t i) const {
  internal::Misused(
      absl::StrCat("StepOutputs[", i, "]: no such fetch; the step has ", values_.size()));
}

Session::Session(std::unique_ptr<SessionState> state) : state_(std::move(state)) {}
Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const Graph& graph, SessionBackend backend,
                                                         SessionOptions options) {
  MF_ASSIGN_OR_RETURN(std::unique_ptr<SessionState> state,
                      SessionState::Create(graph, std::move(backend), std::move(options)));
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

absl::StatusOr<Step> Session::Prepare(absl::Span<const Output> feeds,
                                      absl::Span<const Output> fetches,
                                      absl::Span<const Operation> targets,
                                      const PrepareOptions& options) {
  return state_->Prepare(feeds, fetches, targets, options);
}

absl::StatusOr<std::vector<Tensor>> Session::Run(absl::Span<const std::pair<Output, Tensor>> feeds,
                                                 absl::Span<const Output> fetches,
                                                 absl::Span<const Operation> targets) {
  return state_->Run(feeds, fetches, targets);
}

int Session::num_local_replicas() const { return state_->num_local_replicas(); }
int Session::world_size() const { return state_->world_size(); }
absl::Status Session::Reconnect() { return state_->Reconnect(); }
uint64_t Session::step() const { return state_->step(); }
void Session::SetStep(uint64_t step) { state_->SetStep(step); }
uint64_t Session::reading_step() const { return state_->reading_step(); }
void Session::SetReadingStep(uint64_t step) { state_->SetReadingStep(step); }

std::vector<std::string> Session::VariableNames() const {
  std::vector<std::string> names;
  for (const VariableInfo& variable : state_->layout().variables()) names.push_back(variable.name);
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<Tensor> Session::ReadVariable(absl::string_view name) {
  Tensor value;
  MF_RETURN_IF_ERROR(state_->ReadVariable(name, &value));
  return value;
}

absl::Status Session::CopyVariable(absl::string_view name, Tensor* copy) {
  return state_->ReadVariable(name, copy);
}

absl::StatusOr<Tensor> Session::ReadVariable(absl::string_view name, int replica) const {
  Tensor value;
  MF_RETURN_IF_ERROR(state_->ReadVariable(name, replica, &value));
  return value;
}

absl::Status Session::AssignVariable(absl::string_view name, const Tensor& value) {
  return state_->AssignVariable(name, value);
}

absl::Status Session::AssignFromWorker0(absl::Span<const std::string> names,
                                        const std::map<std::string, Tensor>& values) {
  return state_->AssignFromWorker0(names, values);
}

absl::StatusOr<std::vector<VariablePart>> Session::ReadParts(absl::string_view name) {
  return state_->ReadParts(name);
}

absl::Status Session::AssignPartsFromWorker0(absl::string_view name,
                                             absl::Span<const VariablePart> parts) {
  return state_->AssignPartsFromWorker0(name, parts);
}

bool Session::IsInitialized(absl::string_view name) const { return state_->IsInitialized(name); }
absl::Status Session::CheckReplicas() { return state_->CheckReplicas(); }
void Session::TraceTo(TraceWriter* trace) { state_->TraceTo(trace); }
absl::Status Session::GatherTrace() { return state_->GatherTrace(); }

}  // namespace mirrorflow
