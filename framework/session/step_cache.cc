// SPDX-License-Identifier: Apache-2.0
#include "framework/session/step_cache.h"

#include <algorithm>
#include <set>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/core/status.h"
#include "framework/session/session_memory.h"

namespace mirrorflow {
namespace {

using State = VariableStore::State;

// Finds the variables that the step reads before it writes them, and the variables that it writes.
// Both lists are sorted.
absl::Status FindVariableUses(const Compilation& c, std::vector<int>* reads_first,
                              std::vector<int>* writes) {
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  std::set<int> read, written;
  for (const Node* node : order) {
    const OpRole role = node->op().role;
    if (role != OpRole::kRead && role != OpRole::kWrite) continue;
    for (const Output& in : node->inputs()) {
      if (in.dtype() != DT_RESOURCE) continue;
      const int v = c.layout->FindHandle(in);
      if (v < 0) return absl::InternalError(absl::StrCat("no variable for ", in.ToString()));
      const bool needs_value = role == OpRole::kRead || !node->op().has(kOverwrites);
      if (needs_value && !written.contains(v)) read.insert(v);
      if (role == OpRole::kWrite) written.insert(v);
    }
  }
  reads_first->assign(read.begin(), read.end());
  writes->assign(written.begin(), written.end());
  return absl::OkStatus();
}

size_t HashOf(size_t step, absl::Span<const Shape> shapes) {
  std::vector<int64_t> numbers = {static_cast<int64_t>(step)};
  for (const Shape& shape : shapes) {
    numbers.push_back(shape.rank());
    for (int d = 0; d < shape.rank(); ++d) numbers.push_back(shape.dim(d));
  }
  return absl::HashOf(numbers);
}

std::string Describe(const CompiledStep& step) {
  return absl::StrCat("step ", step.step, " for feeds of shapes ",
                      absl::StrJoin(step.shapes, ", ",
                                    [](std::string* out, const Shape& shape) {
                                      absl::StrAppend(out, shape.ToString());
                                    }),
                      step.replica_rows.empty()
                          ? ""
                          : absl::StrCat(" and rows ", absl::StrJoin(step.replica_rows, ", ")));
}

}  // namespace

bool StepCache::HasStates(const CompiledStep& step, VariableStore::States states) {
  return std::all_of(step.states.begin(), step.states.end(), [&](const auto& needed) {
    return (states[needed.first] != State::kUnset) == needed.second;
  });
}

absl::StatusOr<std::shared_ptr<CompiledStep>> StepCache::Get(const StepKey& key) {
  if (auto found = Find(key, /*touch=*/true)) return found;
  MutexLock compiling(&compiling_);
  // Another thread may have compiled the step in the meantime.
  if (auto found = Find(key, /*touch=*/true)) return found;
  MF_ASSIGN_OR_RETURN(std::shared_ptr<CompiledStep> compiled, Compile(key));
  Insert(compiled);
  return compiled;
}

absl::StatusOr<std::shared_ptr<const CompiledStep>> StepCache::Peek(const StepKey& key) {
  MutexLock compiling(&compiling_);
  if (auto found = Find(key, /*touch=*/false)) return found;
  return Compile(key);
}

std::shared_ptr<CompiledStep> StepCache::Find(const StepKey& key, bool touch) {
  MutexLock lock(&mutex_);
  const auto [begin, end] = by_key_.equal_range(HashOf(key.step.index, key.shapes));
  for (auto it = begin; it != end; ++it) {
    const std::shared_ptr<CompiledStep> found = *it->second;
    if (found->step != key.step.index || found->shapes != key.shapes ||
        found->replica_rows != key.replica_rows || !HasStates(*found, key.states)) {
      continue;
    }
    if (touch) MoveToFront(it->second);
    return found;
  }
  return nullptr;
}

void StepCache::MoveToFront(List::iterator position) {
  steps_.splice(steps_.begin(), steps_, position);
  newest_.store(steps_.front().get(), std::memory_order_relaxed);
}

void StepCache::MoveToFront(const CompiledStep& step) {
  MutexLock lock(&mutex_);
  const auto [begin, end] = by_key_.equal_range(HashOf(step.step, step.shapes));
  for (auto it = begin; it != end; ++it) {
    if (it->second->get() == &step) return MoveToFront(it->second);
  }
}

void StepCache::Insert(const std::shared_ptr<CompiledStep>& step) {
  MutexLock lock(&mutex_);
  while (static_cast<int>(steps_.size()) >= std::max(options_.max_steps, 1)) {
    step->replaced = Describe(*steps_.back());
    DropLast();
  }
  steps_.push_front(step);
  by_key_.emplace(HashOf(step->step, step->shapes), steps_.begin());
  newest_.store(step.get(), std::memory_order_relaxed);
}

void StepCache::DropLast() {
  CompiledStep& last = *steps_.back();
  last.evicted.store(true, std::memory_order_relaxed);
  const auto [begin, end] = by_key_.equal_range(HashOf(last.step, last.shapes));
  by_key_.erase(
      std::find_if(begin, end, [&](const auto& entry) { return entry.second->get() == &last; }));
  steps_.pop_back();
  evictions_.fetch_add(1, std::memory_order_release);
}

void StepCache::Clear() {
  MutexLock lock(&mutex_);
  while (!steps_.empty()) DropLast();
  newest_.store(nullptr, std::memory_order_relaxed);
}

std::vector<std::shared_ptr<CompiledStep>> StepCache::VariantsOf(
    size_t step, absl::Span<const Shape> shapes) const {
  MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<CompiledStep>> variants;
  const auto [begin, end] = by_key_.equal_range(HashOf(step, shapes));
  for (auto it = begin; it != end; ++it) {
    const std::shared_ptr<CompiledStep>& variant = *it->second;
    if (variant->step == step && variant->shapes == shapes) variants.push_back(variant);
  }
  return variants;
}

size_t StepCache::size() const {
  MutexLock lock(&mutex_);
  return steps_.size();
}

absl::StatusOr<std::shared_ptr<CompiledStep>> StepCache::Compile(const StepKey& key) {
  const auto& [step, shapes, replica_rows, states] = key;
  auto compiled = std::make_shared<CompiledStep>();
  compiled->step = step.index;
  compiled->shapes.assign(shapes.begin(), shapes.end());
  compiled->replica_rows.assign(replica_rows.begin(), replica_rows.end());
  // Reuses the program of another compiled variant, because programs do not depend on the row
  // shards.
  for (const auto& other : VariantsOf(step.index, shapes)) {
    if (HasStates(*other, states)) compiled->program = other->program;
  }
  if (compiled->program == nullptr) {
    GlobalSignature signature = {step.signature, compiled->shapes};
    for (const State state : states) signature.initialized.push_back(state != State::kUnset);
    MF_ASSIGN_OR_RETURN(compiled->program, compiler_.MakeProgram(signature, layout_));
  }
  const Compilation& c = compiled->program->state;
  for (const int v : c.states_needed) compiled->states.emplace_back(v, c.initialized[v]);
  MF_ASSIGN_OR_RETURN(compiled->rows, ShardRows(c.axes, replica_rows, options_.world_size));
  MF_RETURN_IF_ERROR(FindVariableUses(c, &compiled->reads_first, &compiled->writes));
  MF_RETURN_IF_ERROR(MakePlans(*compiled));
  return compiled;
}

absl::Status StepCache::MakePlans(CompiledStep& step) {
  const int tuning_version = compiler_.tuning_version();
  std::vector<std::pair<absl::string_view, std::shared_ptr<const Plan>>> plans;  // by device type
  // Plans do not depend on the rank, so replicas with equal shards can use the same plan.
  for (const auto& other : VariantsOf(step.step, step.shapes)) {
    if (other->program != step.program || other->tuning_version != tuning_version) continue;
    for (int r = 0; r < replicas_.size(); ++r) {
      plans.emplace_back(replicas_[r].device().traits().type, other->plans[r]);
    }
  }
  std::vector<std::shared_ptr<const Plan>> of_replica;
  std::vector<int64_t> own;  // this replica's rows of each axis
  for (const auto& replica : replicas_) {
    own.clear();
    for (const std::vector<int64_t>& shards : step.rows) own.push_back(shards[replica->rank()]);
    const std::string& type = replica->device().traits().type;
    auto known = std::find_if(plans.begin(), plans.end(), [&](const auto& plan) {
      return plan.first == type && plan.second->axis_rows == own;
    });
    if (known == plans.end()) {
      MF_ASSIGN_OR_RETURN(auto plan, compiler_.MakePlan(*step.program, own, replica->device()));
      known = plans.emplace(plans.end(), type, std::move(plan));
    }
    of_replica.push_back(known->second);
  }
  MF_RETURN_IF_ERROR(CheckStepMemory(layout_, of_replica, options_.max_bytes));
  step.plans = std::move(of_replica);
  step.fetch_bytes = FetchBytes(*step.plans[0]);
  step.tuning_version = tuning_version;
  return absl::OkStatus();
}

absl::Status StepCache::Retune(CompiledStep& step) {
  if (step.tuning_version == compiler_.tuning_version()) return absl::OkStatus();
  MutexLock compiling(&compiling_);
  return MakePlans(step);
}

}  // namespace mirrorflow
