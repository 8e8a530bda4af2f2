// SPDX-License-Identifier: Apache-2.0
//
// Coordination of a session whose replicas are on several workers: all start from worker 0's seed
// and rank 0's variables, and agree on each step before it first runs.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/session/agreement.h"
#include "framework/session/step_state.h"

namespace mirrorflow {
namespace {

std::string YesOrNo(bool value) { return value ? "yes" : "no"; }

void AddOptions(const CompileOptions& options, Agreement* agreement) {
  std::vector<std::string> disabled(options.disabled_passes.begin(), options.disabled_passes.end());
  std::sort(disabled.begin(), disabled.end());
  agreement->Add("option disabled_passes", absl::StrJoin(disabled, ", "));
  agreement->Add("option compute_dtype", DataTypeName(options.compute_dtype));
  agreement->Add("option allow_tf32", YesOrNo(options.kernels.allow_tf32));
  agreement->Add("option autotune", YesOrNo(options.kernels.autotune));
}

void AddSignature(const StepSignature& signature, absl::Span<const Shape> feed_shapes,
                  Agreement* agreement) {
  for (size_t i = 0; i < signature.feeds.size(); ++i) {
    const Output& feed = signature.feeds[i];
    agreement->Add(
        absl::StrCat("feed ", i),
        absl::StrCat(feed.ToString(), " ", DataTypeName(feed.dtype()), feed_shapes[i].ToString()));
  }
  for (size_t i = 0; i < signature.fetches.size(); ++i) {
    const Output& fetch = signature.fetches[i];
    const bool is_local = absl::c_linear_search(signature.local_fetches, fetch);
    agreement->Add(absl::StrCat("fetch ", i),
                   absl::StrCat(fetch.ToString(), is_local ? " (local)" : ""));
  }
  for (size_t i = 0; i < signature.targets.size(); ++i) {
    agreement->Add(absl::StrCat("target ", i), signature.targets[i]->name());
  }
}

// Compares names and shapes before places: different variables or optimizers move all variables.
void AddLayout(const VariableLayout& layout, Agreement* agreement) {
  for (const VariableInfo& v : layout.variables()) {
    agreement->Add(
        absl::StrCat(v.is_optimizer_state ? "optimizer's variable " : "variable ", v.name),
        absl::StrCat(DataTypeName(v.dtype), v.shape.ToString()));
  }
  for (const VariableInfo& v : layout.variables()) {
    agreement->Add(absl::StrCat("place of ", v.name),
                   absl::StrCat("region ", v.region, " at ", v.offset));
  }
  for (const LayoutRegion& region : layout.regions()) {
    agreement->Add(absl::StrCat("region ", region.name), absl::StrCat(region.bytes, " bytes"));
  }
}

void AddSchedule(const Plan& plan, Agreement* agreement) {
  for (size_t i = 0; i < plan.collectives.size(); ++i) {
    const PlannedCollective& c = plan.collectives[i];
    agreement->Add(
        absl::StrCat("collective ", i),
        absl::StrCat(c.kind(), " '", c.name, "' of ", c.count, " ", DataTypeName(c.dtype)));
  }
  for (const PlannedControl& control : plan.controls) {
    for (const auto& inner : control.plans) AddSchedule(*inner, agreement);
  }
}

}  // namespace

absl::Status SessionState::AgreeOnVariables() {
  Agreement agreement;
  agreement.Add("topology", connection_.topology().ToString());
  agreement.Add("costs between domains", backend_.link.ToString());
  AddLayout(layout_, &agreement);
  return Agree(agreement, "variables", connection_.topology(), *connection_.workers(),
               PrepareDeadline());
}

absl::Status SessionState::AgreeOn(const StepState& step, StepVariant& variant) {
  constexpr const char* kStates[] = {"not initialised", "initialised", "indeterminate"};
  Agreement agreement;
  agreement.Add("topology", connection_.topology().ToString());
  agreement.Add("step", absl::StrCat(next_step_));
  agreement.Add("runs that write nothing", absl::StrCat(next_reading_step_));
  agreement.Add("seed", absl::StrCat(options_.seed));
  agreement.Add("option bucket_bytes", absl::StrCat(options_.bucket_bytes));
  AddOptions(options_.compile, &agreement);
  AddSignature(step.signature, variant.shapes, &agreement);
  for (size_t axis = 0; axis < variant.rows.size(); ++axis) {
    agreement.Add(absl::StrCat("rows of axis ", axis, " by rank"),
                  absl::StrJoin(variant.rows[axis], ", "));
  }
  for (size_t v = 0; v < variable_states_.size(); ++v) {
    agreement.Add(absl::StrCat("state of variable ", layout_.variables()[v].name),
                  kStates[static_cast<int>(variable_states_[v])]);
  }
  AddLayout(layout_, &agreement);
  agreement.AddText(variant.program->ToString());
  AddSchedule(variant.bound[0]->plan(), &agreement);
  const std::string name = absl::StrCat("preparation ", num_agreements_++);
  MF_RETURN_IF_ERROR(
      Agree(agreement, name, connection_.topology(), *connection_.workers(), PrepareDeadline()));
  if (tuning_ != nullptr) {
    MF_RETURN_IF_ERROR(TakeTuningOfWorker0(name));
    if (variant.tuning_version != tuning_->version()) MF_RETURN_IF_ERROR(MakePlans(step, variant));
  }
  variant.agreed = true;
  // The arena may move on some workers only, but all must record their steps again.
  ++arena_moves_;
  return absl::OkStatus();
}

// Choices for row counts that no local replica has are ignored. Row counts that worker 0 has not
// tuned keep the library's default.
absl::Status SessionState::TakeTuningOfWorker0(absl::string_view agreement) {
  WorkerGroup& workers = *connection_.workers();
  const std::string key = absl::StrCat("autotune of ", agreement);
  if (workers.worker() == 0) return workers.Put(key, tuning_->ToString(), PrepareDeadline());
  MF_ASSIGN_OR_RETURN(const std::string choices, workers.Get(key, PrepareDeadline()));
  return tuning_->TakeOver(choices);
}

absl::Status SessionState::TakeSeedOfWorker0() {
  WorkerGroup& workers = *connection_.workers();
  if (workers.worker() == 0) {
    return workers.Put("seed", absl::StrCat(options_.seed), PrepareDeadline());
  }
  MF_ASSIGN_OR_RETURN(const std::string seed, workers.Get("seed", PrepareDeadline()));
  if (absl::SimpleAtoi(seed, &options_.seed)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("seed of worker 0: expected a number, got '", seed, "'"));
}

absl::Status SessionState::TakeVariablesOfRank0(absl::Span<const int> variables) {
  int64_t largest = 0;
  for (const int v : variables) largest = std::max(largest, layout_.variables()[v].bytes());
  return OnEachReplica([&](Replica& replica, Lane& lane) -> absl::Status {
    // Only one replica receives the value of a shared variable into its memory; the others receive
    // it into a buffer that is dropped.
    MF_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> unused,
                        replica.device().Allocate(largest));
    for (const int variable : variables) {
      const VariableInfo& v = layout_.variables()[variable];
      if (v.on_read) continue;  // the replicas' parts differ and sum up to the value
      std::byte* const memory = replica.VariableAddress(v);
      MF_RETURN_IF_ERROR(replica.communicator()->Run(
          {.operation = Broadcast{.count = v.shape.num_elements(), .root = 0},
           .dtype = v.dtype,
           .in = memory,
           .out = Writes(replica, v) ? memory : replica.device().KernelAddress(unused.get()),
           .name = v.name},
          &lane));
    }
    return absl::OkStatus();
  });
}

absl::Status SessionState::AssignFromWorker0(absl::Span<const std::string> names,
                                             const std::map<std::string, Tensor>& values) {
  const bool has_values = !connection_.has_other_workers() || connection_.workers()->worker() == 0;
  std::vector<int> variables;
  for (const std::string& name : names) {
    MF_ASSIGN_OR_RETURN(variables.emplace_back(), FindVariable(name));
  }
  MF_RETURN_IF_ERROR(WaitForSharers());
  for (size_t i = 0; i < names.size(); ++i) {
    const VariableInfo& v = layout_.variables()[variables[i]];
    if (has_values) {
      const auto value = values.find(names[i]);
      if (value == values.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("variable '", names[i], "': worker 0 has no value for it"));
      }
      MF_RETURN_IF_ERROR(CheckValue(v, value->second));
      MF_RETURN_IF_ERROR(SetVariable(variables[i], value->second));
    } else if (v.on_read) {  // rank 0 has all of it
      MF_ASSIGN_OR_RETURN(const Tensor zeros, Tensor::Allocate(v.dtype, v.shape));
      std::memset(zeros.raw(), 0, zeros.bytes());
      MF_RETURN_IF_ERROR(SetVariable(variables[i], zeros));
    }
    variable_states_[variables[i]] = VariableState::kSet;
  }
  last_run_ = nullptr;
  if (connection_.has_other_workers()) {
    if (connection_.state() == Connection::State::kBroken) MF_RETURN_IF_ERROR(Reconnect());
    MF_RETURN_IF_ERROR(TakeVariablesOfRank0(variables));
  }
  return WaitForSharers();
}

absl::Status SessionState::WaitForSharers() {
  MF_RETURN_IF_ERROR(FinishUpdates());
  if (backend_.share_memory == nullptr) return absl::OkStatus();
  if (connection_.state() == Connection::State::kBroken) MF_RETURN_IF_ERROR(Reconnect());
  return OnEachReplica([&](Replica& replica, Lane& lane) {
    return replica.communicator()->Run({.operation = Barrier{}, .name = "variables"}, &lane);
  });
}

absl::StatusOr<Tensor> SessionState::SumOverRanks(int variable) {
  const VariableInfo& v = layout_.variables()[variable];
  MF_RETURN_IF_ERROR(FinishUpdates());
  if (connection_.state() == Connection::State::kBroken) MF_RETURN_IF_ERROR(Reconnect());
  std::vector<std::shared_ptr<std::byte>> sums(replicas_.size());
  const int first_rank = replicas_[0]->rank();
  MF_RETURN_IF_ERROR(OnEachReplica([&](Replica& replica, Lane& lane) -> absl::Status {
    std::shared_ptr<std::byte>& sum = sums[replica.rank() - first_rank];
    MF_ASSIGN_OR_RETURN(sum, replica.device().Allocate(v.bytes()));
    return replica.communicator()->Run(
        {.operation = AllReduce{Reduction::kSum, v.shape.num_elements()},
         .dtype = v.dtype,
         .in = replica.VariableAddress(v),
         .out = replica.device().KernelAddress(sum.get()),
         .name = v.name},
        &lane);
  }));
  MF_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(v.dtype, v.shape));
  MF_RETURN_IF_ERROR(replicas_[0]->device().CopyOut(sums[0].get(), value.raw(), value.bytes()));
  return value;
}

}  // namespace mirrorflow
