// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/plan_memory.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/compiler/plan/emit_collectives.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// The arena of its functions, and room for results that must wait for others, is the scratch of a
// branch or loop.
void PlaceControl(PlanState& s, size_t index) {
  PlannedControl& control = s.plan->controls[index];
  int64_t& scratch_bytes = s.storage.all[s.control_scratch[index]].bytes;
  for (const auto& plan : control.plans) {
    scratch_bytes = std::max(scratch_bytes, static_cast<int64_t>(AlignUp(plan->arena_bytes)));
  }
  const bool loops = s.controls[index]->op().role == OpRole::kLoop;
  const Plan& last = *control.plans[1];
  for (size_t i = 0; i < control.bytes.size(); ++i) {
    const RegionId result = last.fetches[i].operand.region;
    const bool is_other_argument = loops && result >= Plan::kFirstFeedRegion &&
                                   result != last.feed_region(static_cast<int>(i));
    control.staging.push_back(is_other_argument ? scratch_bytes : -1);
    if (is_other_argument) scratch_bytes += static_cast<int64_t>(AlignUp(control.bytes[i]));
  }
}

// Gives the storages of the arena their offsets.
absl::Status PlaceArena(PlanState& s) {
  std::vector<Lifetime> values;
  std::vector<int> owner;
  int64_t total_bytes = 0;
  for (size_t i = 0; i < s.lifetimes.size(); ++i) {
    const Storage& storage = s.storage.all[i];
    if (storage.region != kNoRegion || storage.parent >= 0) continue;
    if (s.lifetimes[i].last < 0) continue;  // no instruction touches it
    s.lifetimes[i].bytes = storage.bytes;
    // Far from what offsets can hold, and from any machine.
    constexpr int64_t kMaxBytes = int64_t{1} << 60;
    total_bytes += std::min(storage.bytes, kMaxBytes);
    if (total_bytes > kMaxBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the values of this step need more than ", kMaxBytes, " bytes"));
    }
    values.push_back(s.lifetimes[i]);
    owner.push_back(static_cast<int>(i));
  }
  const MemoryPlan memory = PackValues(values);
  s.plan->arena_bytes = memory.peak_bytes;
  s.plan->live_bytes = memory.live_bytes;
  s.plan->num_arena_values = static_cast<int64_t>(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Storage& storage = s.storage.all[owner[i]];
    storage.region = Plan::kArenaRegion;
    storage.offset = memory.offsets[i];
  }
  return absl::OkStatus();
}

Operand AddressOf(const PlanState& s, int storage) {
  if (storage < 0) return {};
  int64_t offset = 0;
  for (; s.storage.all[storage].parent >= 0; storage = s.storage.all[storage].parent) {
    offset += s.storage.all[storage].offset;
  }
  const Storage& root = s.storage.all[storage];
  // What no instruction touches has no place; it does not matter where it lies.
  if (root.region == kNoRegion) return {Plan::kArenaRegion, offset};
  return {root.region, root.offset + offset};
}

absl::Status FillConstants(PlanState& s) {
  Plan& plan = *s.plan;
  plan.constants_bytes = s.storage.constants_bytes;
  MF_ASSIGN_OR_RETURN(plan.constants, Buffer::Allocate(plan.constants_bytes));
  for (const auto& [node, offset] : s.storage.constants) {
    const Tensor& value = s.values().at(node->output(0)).constant;
    std::memcpy(plan.constants->data() + offset, value.raw(), value.bytes());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> PlanMemory::RunOn(PlanState& s) {
  Plan& plan = *s.plan;
  for (size_t i = 0; i < plan.controls.size(); ++i) PlaceControl(s, i);
  MF_RETURN_IF_ERROR(PlaceArena(s));
  MF_RETURN_IF_ERROR(FillConstants(s));
  const auto address_of = [&](int storage) { return AddressOf(s, storage); };
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    plan.operands[i] = address_of(s.operand_storage[i]);
  }
  PlaceCollectives(s, address_of);
  for (size_t i = 0; i < plan.fetches.size(); ++i) {
    const int storage = s.storage.of(s.fetches[i]);
    plan.fetches[i].operand = address_of(storage);
    if (storage >= 0) plan.fetches[i].value = s.storage.Root(storage);
  }
  for (size_t i = 0; i < s.uses.size(); ++i) {
    for (const auto& [storage, is_write] : s.uses[i]) {
      plan.accesses[i].push_back(
          {address_of(storage), s.storage.all[storage].bytes, is_write, s.storage.Root(storage)});
    }
  }
  plan.num_regions =
      plan.layout_region(s.layout != nullptr ? static_cast<int>(s.layout->regions().size()) : 0);
  // Bodies of branches and loops run on one thread.
  plan.dispatch = MakeDispatchList(plan, s.traits.inline_lanes || s.is_body);
  return true;
}

}  // namespace mirrorflow
