// SPDX-License-Identifier: Apache-2.0
//
// Initialises the variables of a session, and reads and assigns them from the host.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/names.h"
#include "framework/core/status.h"
#include "framework/graph/op_registry.h"
#include "framework/runtime/reduce_in_rank_order.h"
#include "framework/session/session_state.h"

namespace mirrorflow {
namespace {

// User steps are numbered from 0; initialisers draw from a separate stream.
constexpr uint64_t kInitializerStep = ~uint64_t{0};

std::string InitializerOf(const VariableInfo& variable) {
  return absl::StrCat("initializer of variable '", variable.name, "'");
}

// Returns the variables on whose handles `value` depends.
std::vector<int> VariablesBehind(const Output& value, const VariableLayout& layout) {
  std::vector<int> variables;
  absl::flat_hash_set<const Node*> seen = {value.node};
  std::vector<Node*> pending = {value.node};
  auto visit = [&](Node* node) {
    if (seen.insert(node).second) pending.push_back(node);
  };
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (node->op().role == OpRole::kVariable)
      variables.push_back(layout.FindHandle(node->output(0)));
    for (const Output& in : node->inputs()) visit(in.node);
    for (Node* control : node->control_inputs()) visit(control);
  }
  return variables;
}

}  // namespace

// Each initialiser runs once, after those of the variables that it reads.
absl::Status SessionState::InitializeVariables() {
  std::vector<int> left;
  std::vector<Output> initializers(layout_.variables().size());
  for (size_t v = 0; v < layout_.variables().size(); ++v) {
    const VariableInfo& variable = layout_.variables()[v];
    if (variable.initializer.empty()) continue;
    absl::StatusOr<Output> value = FindOutput(variable.initializer);
    if (!value.ok()) return Annotate(value.status(), InitializerOf(variable));
    initializers[v] = *value;
    left.push_back(static_cast<int>(v));
  }
  while (!left.empty()) {
    std::vector<int> ready, waiting;
    std::vector<Output> values;
    absl::Status waits;
    for (int v : left) {
      const std::vector<int> reads = VariablesBehind(initializers[v], layout_);
      const auto missing = std::find_if(reads.begin(), reads.end(), [&](int read) {
        return variable_states_[read] != VariableState::kSet;
      });
      if (missing == reads.end()) {
        ready.push_back(v);
        values.push_back(initializers[v]);
        continue;
      }
      waiting.push_back(v);
      const VariableInfo& read = layout_.variables()[*missing];
      waits.Update(absl::InvalidArgumentError(
          absl::StrCat(InitializerOf(layout_.variables()[v]), " reads variable '", read.name,
                       "'; expected one that can be initialised first, got ",
                       read.initializer.empty()
                           ? "one without an initializer"
                           : "one that depends on it, or on one that stays uninitialised")));
    }
    if (ready.empty()) return waits;
    MF_RETURN_IF_ERROR(RunInitializers(ready, values));
    left = std::move(waiting);
  }
  return absl::OkStatus();
}

// Runs the initialisers on one device, so every replica gets the same bits.
absl::Status SessionState::RunInitializers(absl::Span<const int> variables,
                                           absl::Span<const Output> values) {
  GlobalSignature signature;
  signature.step.fetches.assign(values.begin(), values.end());
  signature.shard = false;
  MF_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program,
                      backend_.compile(graph_, signature, layout_, backend_, options_.compile));
  Device& device = replicas_[0]->device();
  MF_RETURN_IF_ERROR(device.MakeCurrent());
  MF_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan,
                      backend_.compile_plan(*program, {}, device.traits(), tuning_.get()));
  MF_ASSIGN_OR_RETURN(std::unique_ptr<BoundPlan> bound, replicas_[0]->Bind(plan, {}));
  MF_RETURN_IF_ERROR(
      bound->Run(kInitializerStep, options_.seed, MonotonicTime::Now() + options_.step_timeout));
  for (size_t i = 0; i < variables.size(); ++i) {
    const VariableInfo& variable = layout_.variables()[variables[i]];
    const PlannedFetch& fetch = plan->fetches[i];
    if (fetch.dtype != variable.dtype || fetch.global_shape != variable.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(InitializerOf(variable), ": expected ", DataTypeName(variable.dtype),
                       variable.shape.ToString(), ", got ", DataTypeName(fetch.dtype),
                       fetch.global_shape.ToString()));
    }
    MF_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(variable.dtype, variable.shape));
    MF_RETURN_IF_ERROR(
        device.CopyOut(bound->fetch_address(static_cast<int>(i)), value.raw(), value.bytes()));
    MF_RETURN_IF_ERROR(SetVariable(variables[i], value));
  }
  return WaitForSharers();
}

absl::Status SessionState::CheckDeterminate(int variable) const {
  if (variable_states_[variable] != VariableState::kIndeterminate) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("variable '", layout_.variables()[variable].name,
                   "' is indeterminate, because a step failed while it updated variables (",
                   indeterminate_cause_, "); expected an assignment before it is read"));
}

absl::StatusOr<int> SessionState::FindVariable(absl::string_view name) const {
  const int v = layout_.Find(name);
  if (v >= 0) return v;
  std::vector<std::string> names;
  for (const VariableInfo& variable : layout_.variables()) names.push_back(variable.name);
  return absl::NotFoundError(
      absl::StrCat("no variable '", Printable(name), "'", DidYouMean(name, names)));
}

absl::Status SessionState::ReadVariable(absl::string_view name, Tensor* value) {
  MF_RETURN_IF_ERROR(ReadVariable(name, 0, value));
  if (!layout_.variables()[layout_.Find(name)].on_read) return absl::OkStatus();
  if (connection_.has_other_workers()) {
    MF_ASSIGN_OR_RETURN(*value, SumOverRanks(layout_.Find(name)));
    return absl::OkStatus();
  }
  Tensor part;
  for (int r = 1; r < num_local_replicas(); ++r) {
    MF_RETURN_IF_ERROR(ReadVariable(name, r, &part));
    const void* const parts[] = {value->raw(), part.raw()};
    void* const sum = value->raw();
    ReduceInRankOrder(Reduction::kSum, part.dtype(), parts, {&sum, 1}, part.num_elements());
  }
  return absl::OkStatus();
}

absl::Status SessionState::ReadVariable(absl::string_view name, int replica, Tensor* value) {
  MF_ASSIGN_OR_RETURN(const int v, FindVariable(name));
  if (replica < 0 || replica >= num_local_replicas()) {
    return absl::InvalidArgumentError(absl::StrCat("no such local replica; expected 0 to ",
                                                   num_local_replicas() - 1, ", got ", replica));
  }
  MF_RETURN_IF_ERROR(FinishUpdates());
  MF_RETURN_IF_ERROR(CheckDeterminate(v));
  const VariableInfo& variable = layout_.variables()[v];
  if (value->dtype() != variable.dtype || value->shape() != variable.shape) {
    MF_ASSIGN_OR_RETURN(*value, Tensor::Allocate(variable.dtype, variable.shape));
  }
  const std::byte* from = replicas_[replica]->layout_region(variable.region) + variable.offset;
  return replicas_[replica]->device().CopyOut(from, value->raw(), value->bytes());
}

absl::Status SessionState::CheckValue(const VariableInfo& variable, const Tensor& value) {
  if (value.dtype() == variable.dtype && value.shape() == variable.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "variable '", variable.name, "': expected ", DataTypeName(variable.dtype),
      variable.shape.ToString(), ", got ", DataTypeName(value.dtype()), value.shape().ToString()));
}

absl::Status SessionState::AssignVariable(absl::string_view name, const Tensor& value) {
  MF_ASSIGN_OR_RETURN(const int v, FindVariable(name));
  MF_RETURN_IF_ERROR(CheckValue(layout_.variables()[v], value));
  // One of the workers that share a copy writes it: after all have read what they still need, and
  // before any goes on.
  MF_RETURN_IF_ERROR(WaitForSharers());
  MF_RETURN_IF_ERROR(SetVariable(v, value));
  return WaitForSharers();
}

absl::Status SessionState::SetVariable(int v, const Tensor& value) {
  MF_RETURN_IF_ERROR(FinishUpdates());
  const VariableInfo& variable = layout_.variables()[v];
  // A variable that is synchronised on read has the whole value on rank 0 and zeros elsewhere.
  const Tensor* own = &value;
  Tensor zeros;
  for (const auto& replica : replicas_) {
    if (!Writes(*replica, variable)) continue;
    if (variable.on_read && replica->rank() != 0 && !zeros.has_value()) {
      MF_ASSIGN_OR_RETURN(zeros, Tensor::Allocate(value.dtype(), value.shape()));
      std::memset(zeros.raw(), 0, zeros.bytes());
      own = &zeros;
    }
    std::byte* to = replica->layout_region(variable.region) + variable.offset;
    MF_RETURN_IF_ERROR(replica->device().CopyIn(own->raw(), to, own->bytes()));
  }
  variable_states_[v] = VariableState::kSet;
  last_run_ = nullptr;
  return absl::OkStatus();
}

bool SessionState::IsInitialized(absl::string_view name) const {
  const int v = layout_.Find(name);
  return v >= 0 && variable_states_[v] == VariableState::kSet;
}

}  // namespace mirrorflow
