// SPDX-License-Identifier: Apache-2.0
//
// Compiles the steps of a session for the shapes of their feeds.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/row_shares.h"
#include "framework/core/status.h"
#include "framework/session/session_memory.h"
#include "framework/session/step_state.h"

namespace mirrorflow {
namespace {

// Finds the variables that the step reads before it writes them, and those that it writes; sorted.
absl::Status FindVariableUses(const Compilation& c, std::vector<int>* reads_first,
                              std::vector<int>* writes) {
  MF_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(c.graph));
  absl::flat_hash_set<int> read, written;
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
  std::sort(reads_first->begin(), reads_first->end());
  std::sort(writes->begin(), writes->end());
  return absl::OkStatus();
}

}  // namespace

absl::Status SessionState::MakePlans(const StepState& step, StepVariant& variant) {
  const int tuning_version = tuning_ != nullptr ? tuning_->version() : 0;
  std::vector<std::pair<absl::string_view, std::shared_ptr<const Plan>>> plans;  // by device type
  // Plans do not depend on the rank, so replicas with equal shares can use the same one.
  for (const auto& other : step.variants) {
    if (other->program != variant.program || other->tuning_version != tuning_version) continue;
    for (size_t r = 0; r < replicas_.size(); ++r) {
      plans.emplace_back(replicas_[r]->device().traits().type, other->bound[r]->shared_plan());
    }
  }
  std::vector<std::shared_ptr<const Plan>> of_replica;
  std::vector<int64_t> own;  // this replica's rows of each axis
  for (const auto& replica : replicas_) {
    own.clear();
    for (const std::vector<int64_t>& shares : variant.rows) own.push_back(shares[replica->rank()]);
    const DeviceTraits& traits = replica->device().traits();
    auto known = std::find_if(plans.begin(), plans.end(), [&](const auto& plan) {
      return plan.first == traits.type && plan.second->axis_rows == own;
    });
    if (known == plans.end()) {
      MF_RETURN_IF_ERROR(replica->device().MakeCurrent());
      MF_ASSIGN_OR_RETURN(auto plan,
                          backend_.compile_plan(*variant.program, own, traits, tuning_.get()));
      known = plans.emplace(plans.end(), traits.type, std::move(plan));
    }
    of_replica.push_back(known->second);
  }
  MF_RETURN_IF_ERROR(CheckStepMemory(layout_, of_replica, options_.max_bytes));
  std::vector<std::unique_ptr<BoundPlan>> bound(replicas_.size());
  for (size_t r = 0; r < replicas_.size(); ++r) {
    MF_ASSIGN_OR_RETURN(bound[r], replicas_[r]->Bind(of_replica[r], variant.rows));
  }
  variant.bound = std::move(bound);
  for (size_t r = 0; r < replicas_.size(); ++r) {
    std::vector<int> provided;
    for (size_t i = 0; i < of_replica[r]->fetches.size(); ++i) {
      if (Provides(variant, static_cast<int>(r), i)) provided.push_back(static_cast<int>(i));
    }
    MF_RETURN_IF_ERROR(variant.bound[r]->BringToHost(provided));
  }
  variant.tuning_version = tuning_version;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StepVariant>> SessionState::CompileVariant(
    StepState& step, std::vector<Shape> shapes, std::vector<int64_t> replica_rows) {
  auto variant = std::make_unique<StepVariant>();
  // Programs do not depend on the shares of rows.
  for (const auto& other : step.variants) {
    if (other->shapes == shapes && HasStates(*other)) variant->program = other->program;
  }
  if (variant->program == nullptr) {
    GlobalSignature signature = {step.signature, shapes};
    for (VariableState state : variable_states_) {
      signature.initialized.push_back(state != VariableState::kUnset);
    }
    MF_ASSIGN_OR_RETURN(variant->program,
                        backend_.compile(graph_, signature, layout_, backend_, options_.compile));
  }
  const Compilation& c = variant->program->state;
  for (const int v : c.states_needed) variant->states.emplace_back(v, c.initialized[v]);
  MF_ASSIGN_OR_RETURN(variant->rows, ShareRows(c.axes, replica_rows, world_size()));
  MF_RETURN_IF_ERROR(MakePlans(step, *variant));
  for (const PlannedFeed& feed : variant->bound[0]->plan().feeds) {
    int64_t bytes = static_cast<int64_t>(DataTypeSize(feed.dtype));
    for (int d = 1; d < feed.global_shape.rank(); ++d) bytes *= feed.global_shape.dim(d);
    variant->feed_row_bytes.push_back(AsSharded(feed.sharding) != nullptr ? bytes : 0);
  }
  const Plan& plan = variant->bound[0]->plan();
  for (const PlannedFetch& fetch : plan.fetches) {
    variant->output_pools.emplace_back();
    if (IsPerReplica(fetch.sharding)) {
      variant->outputs.emplace_back();
      continue;
    }
    if (fetch.global_shape.rank() == 0 && Tensor::FitsInline(fetch.dtype)) {
      variant->outputs.push_back(Tensor::InlineScalar(fetch.dtype));
      continue;
    }
    Shape shape = fetch.global_shape;
    if (const Sharded* s = AsSharded(fetch.sharding)) {
      // A fetch that is not gathered has the rows of this worker; a single worker has all rows.
      int64_t rows = 0;
      for (const auto& replica : replicas_) rows += variant->rows[s->axis][replica->rank()];
      shape.set_dim(s->dim, rows * s->factor);
    }
    // MakeOutputs provides the memory for each run.
    variant->outputs.push_back(Tensor::View(fetch.dtype, shape, nullptr, nullptr));
  }
  MF_RETURN_IF_ERROR(FindVariableUses(c, &variant->reads_first, &variant->writes));
  variant->statuses.resize(replicas_.size());
  variant->shapes = std::move(shapes);
  variant->replica_rows = std::move(replica_rows);
  return variant;
}

bool SessionState::HasStates(const StepVariant& variant) const {
  return std::all_of(variant.states.begin(), variant.states.end(), [&](const auto& needed) {
    return (variable_states_[needed.first] != VariableState::kUnset) == needed.second;
  });
}

absl::StatusOr<StepVariant*> SessionState::FindVariant(StepState& step,
                                                       absl::Span<const Shape> shapes,
                                                       absl::Span<const int64_t> rows) {
  auto matches = [&](const StepVariant& v) {
    return HasStates(v) &&
           std::equal(v.shapes.begin(), v.shapes.end(), shapes.begin(), shapes.end()) &&
           std::equal(v.replica_rows.begin(), v.replica_rows.end(), rows.begin(), rows.end());
  };
  for (const auto& variant : step.variants) {
    if (matches(*variant)) return variant.get();
  }
  MF_ASSIGN_OR_RETURN(std::unique_ptr<StepVariant> variant,
                      CompileVariant(step, std::vector<Shape>(shapes.begin(), shapes.end()),
                                     std::vector<int64_t>(rows.begin(), rows.end())));
  step.variants.push_back(std::move(variant));
  return step.variants.back().get();
}

}  // namespace mirrorflow
