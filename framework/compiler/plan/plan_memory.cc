// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/plan_memory.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/plan/emit_collectives.h"
#include "framework/core/buffer.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr size_t kMaxGreedyValues = 4096;

int64_t Padded(const Lifetime& v) { return static_cast<int64_t>(AlignUp(v.bytes)); }

// Places the largest value first. Puts each value into the smallest sufficient gap between already
// placed values with overlapping lifetimes.
std::vector<int64_t> GreedyBySize(absl::Span<const Lifetime> values) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  absl::c_stable_sort(order, [&](int a, int b) { return values[a].bytes > values[b].bytes; });
  std::vector<int64_t> offsets(values.size(), 0);
  std::vector<int> placed;  // sorted by offset
  for (int v : order) {
    const int64_t size = Padded(values[v]);
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    for (int p : placed) {
      if (values[p].last < values[v].first || values[v].last < values[p].first) continue;
      const int64_t gap = offsets[p] - end;
      if (gap >= size && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, offsets[p] + Padded(values[p]));
    }
    offsets[v] = best >= 0 ? best : end;
    const auto at = std::upper_bound(placed.begin(), placed.end(), v,
                                     [&](int a, int b) { return offsets[a] < offsets[b]; });
    placed.insert(at, v);
  }
  return offsets;
}

// Places values in the order of their births. Each value takes the smallest free block that can
// hold it, and frees the block when it dies.
std::vector<int64_t> BestFit(absl::Span<const Lifetime> values) {
  std::vector<int> births(values.size());
  std::iota(births.begin(), births.end(), 0);
  std::vector<int> deaths = births;
  absl::c_stable_sort(births, [&](int a, int b) {
    return values[a].first != values[b].first ? values[a].first < values[b].first
                                              : values[a].bytes > values[b].bytes;
  });
  absl::c_stable_sort(deaths, [&](int a, int b) { return values[a].last < values[b].last; });
  std::vector<int64_t> offsets(values.size(), 0);
  std::map<int64_t, int64_t> free_at;       // offset -> size
  std::multimap<int64_t, int64_t> free_of;  // size -> offset
  int64_t top = 0;
  auto erase_of = [&](int64_t size, int64_t offset) {
    for (auto it = free_of.lower_bound(size); it != free_of.end() && it->first == size; ++it) {
      if (it->second == offset) {
        free_of.erase(it);
        return;
      }
    }
  };
  auto release = [&](int64_t offset, int64_t size) {
    if (size == 0) return;
    auto next = free_at.lower_bound(offset);
    if (next != free_at.end() && next->first == offset + size) {
      erase_of(next->second, next->first);
      size += next->second;
      next = free_at.erase(next);
    }
    if (next != free_at.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        erase_of(before->second, before->first);
        offset = before->first;
        size += before->second;
        free_at.erase(before);
      }
    }
    free_at.emplace(offset, size);
    free_of.emplace(size, offset);
  };
  size_t next_death = 0;
  for (int v : births) {
    while (next_death < deaths.size() && values[deaths[next_death]].last < values[v].first) {
      const int dead = deaths[next_death++];
      release(offsets[dead], Padded(values[dead]));
    }
    const int64_t size = Padded(values[v]);
    const auto fit = free_of.lower_bound(size);
    if (fit != free_of.end()) {
      const auto [block, offset] = *fit;
      free_of.erase(fit);
      free_at.erase(offset);
      offsets[v] = offset;
      release(offset + size, block - size);
      continue;
    }
    // No free block is large enough, so grow the memory. A free block at the top becomes the start
    // of the new block.
    int64_t offset = top;
    if (!free_at.empty()) {
      const auto last = std::prev(free_at.end());
      if (last->first + last->second == top) {
        offset = last->first;
        erase_of(last->second, last->first);
        free_at.erase(last);
      }
    }
    offsets[v] = offset;
    top = offset + size;
  }
  return offsets;
}

int64_t Peak(absl::Span<const Lifetime> values, const std::vector<int64_t>& offsets) {
  int64_t peak = 0;
  for (size_t i = 0; i < values.size(); ++i) peak = std::max(peak, offsets[i] + Padded(values[i]));
  return peak;
}

int64_t LiveBytes(absl::Span<const Lifetime> values) {
  std::map<int, int64_t> change;
  for (const Lifetime& v : values) {
    change[v.first] += Padded(v);
    change[v.last + 1] -= Padded(v);
  }
  int64_t live = 0, peak = 0;
  for (const auto& [step, delta] : change) peak = std::max(peak, live += delta);
  return peak;
}

// Sizes the scratch memory of a branch or loop. It holds the arena of the node's functions, and a
// copy of each loop result that is also a different argument of the loop.
void PlaceControl(PlanState& s, const Instruction& instruction) {
  PlannedControl& control = s.plan->controls[instruction.index];
  const int operand = instruction.first_operand + instruction.num_inputs + instruction.num_outputs;
  int64_t& scratch_bytes = s.storage.all[s.plan->operands[operand].offset].bytes;
  for (const auto& plan : control.plans) {
    scratch_bytes = std::max(scratch_bytes, static_cast<int64_t>(AlignUp(plan->arena_bytes)));
  }
  const Plan& last = *control.plans[1];
  for (size_t i = 0; i < control.bytes.size(); ++i) {
    const RegionId result = last.fetches[i].operand.region;
    const bool is_other_argument = instruction.kind == InstructionKind::kLoop &&
                                   result >= Plan::kFirstFeedRegion &&
                                   result != last.feed_region(static_cast<int>(i));
    control.staging.push_back(is_other_argument ? scratch_bytes : -1);
    if (is_other_argument) scratch_bytes += static_cast<int64_t>(AlignUp(control.bytes[i]));
  }
}

// Returns the lifetime of each root storage, from the first to the last instruction that uses it. A
// collective in flight uses its memory from its start until it is finished.
std::vector<Lifetime> FindLifetimes(const PlanState& s) {
  std::vector<Lifetime> lifetimes(s.storage.all.size(), {std::numeric_limits<int>::max(), -1, 0});
  const auto touch = [&](int root, int at) {
    lifetimes[root].first = std::min(lifetimes[root].first, at);
    lifetimes[root].last = std::max(lifetimes[root].last, at);
  };
  const std::vector<Instruction>& instructions = s.plan->instructions;
  const int end = static_cast<int>(instructions.size());
  // All parts of a node run concurrently, so the memory of one is in use as long as any of them
  // runs.
  for (int first = 0, next; first < end; first = next) {
    next = first + 1;
    while (next < end && ArePartsOfSameNode(instructions[first], instructions[next])) ++next;
    for (int i = first; i < next; ++i) {
      for (const MemoryAccess& access : s.plan->accesses[i]) {
        touch(access.value, first);
        touch(access.value, next - 1);
      }
    }
  }
  // The memory of an update that finishes late stays in use from its start into the next run.
  for (int i = 0; i < end; ++i) {
    if (s.plan->instructions[i].kind != InstructionKind::kFinishLate) continue;
    for (const MemoryAccess& access : s.plan->accesses[i]) {
      touch(access.value, 0);
      touch(access.value, end);
    }
  }
  for (const Output& fetch : s.fetches) {
    if (const int root = s.storage.RootOf(fetch); root >= 0) touch(root, end);
  }
  return lifetimes;
}

// Assigns offsets to the storages in the arena.
absl::Status PlaceArena(PlanState& s) {
  const std::vector<Lifetime> lifetimes = FindLifetimes(s);
  std::vector<Lifetime> values;
  std::vector<Storage*> owner;
  int64_t total_bytes = 0;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    Storage& storage = s.storage.all[i];
    if (storage.region != kNoRegion || storage.parent >= 0) continue;
    if (lifetimes[i].last < 0) continue;  // no instruction uses it
    // Fits into an offset, and exceeds the memory of any machine.
    constexpr int64_t kMaxBytes = int64_t{1} << 60;
    total_bytes += std::min(storage.bytes, kMaxBytes + 1);
    if (total_bytes > kMaxBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the values of this step need more than ", kMaxBytes, " bytes"));
    }
    values.push_back({lifetimes[i].first, lifetimes[i].last, storage.bytes});
    owner.push_back(&storage);
  }
  const MemoryPlan memory = PackValues(values);
  s.plan->arena_bytes = memory.peak_bytes;
  s.plan->live_bytes = memory.live_bytes;
  s.plan->num_arena_values = static_cast<int64_t>(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    owner[i]->region = Plan::kArenaRegion;
    owner[i]->offset = memory.offsets[i];
  }
  return absl::OkStatus();
}

void Place(const StorageTable& table, Operand* operand) {
  if (operand->region != kUnplaced) return;
  const Storage* at = &table.all[operand->offset];
  int64_t offset = at->offset;
  while (at->parent >= 0) {
    at = &table.all[at->parent];
    offset += at->offset;
  }
  // A storage that no instruction uses has no offset, so any address will do.
  *operand = {at->region != kNoRegion ? at->region : Plan::kArenaRegion, offset};
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

MemoryPlan PackValues(absl::Span<const Lifetime> values) {
  MemoryPlan plan;
  plan.live_bytes = LiveBytes(values);
  plan.offsets = BestFit(values);
  plan.peak_bytes = Peak(values, plan.offsets);
  if (values.size() <= kMaxGreedyValues && plan.peak_bytes > plan.live_bytes) {
    std::vector<int64_t> greedy = GreedyBySize(values);
    const int64_t peak = Peak(values, greedy);
    if (peak < plan.peak_bytes) {
      plan.offsets = std::move(greedy);
      plan.peak_bytes = peak;
    }
  }
  return plan;
}

absl::StatusOr<bool> PlanMemory::Run(PlanState& s) {
  Plan& plan = *s.plan;
  for (const Instruction& instruction : plan.instructions) {
    if (RunsPlans(instruction.kind)) PlaceControl(s, instruction);
  }
  MF_RETURN_IF_ERROR(PlaceArena(s));
  MF_RETURN_IF_ERROR(FillConstants(s));
  for (Operand& operand : plan.operands) Place(s.storage, &operand);
  for (PlannedCollective& collective : plan.collectives) {
    for (Operand* operand : OperandsOf(collective)) Place(s.storage, operand);
  }
  for (size_t i = 0; i < plan.fetches.size(); ++i) {
    plan.fetches[i].operand = Unplaced(s.storage.of(s.fetches[i]));
    plan.fetches[i].value = s.storage.RootOf(s.fetches[i]);
    Place(s.storage, &plan.fetches[i].operand);
  }
  for (std::vector<MemoryAccess>& accesses : plan.accesses) {
    for (MemoryAccess& access : accesses) {
      const Storage& storage = s.storage.all[access.operand.offset];
      access.bytes = storage.bytes;
      access.rows = storage.rows;
      access.row_stride = storage.row_stride;
      Place(s.storage, &access.operand);
    }
  }
  plan.num_regions = plan.form_region(static_cast<int>(plan.forms.size()));
  return true;
}

}  // namespace mirrorflow
