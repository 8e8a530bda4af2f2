// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/finish_updates_late.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"

namespace mirrorflow {
namespace {

// The maximum number of updates in flight between two runs; the rest of kMaxInFlight is left for
// the next run.
constexpr size_t kMaxLate = Communicator::kMaxInFlight / 2;

bool GoesOverDomains(const PlannedCollective& collective) {
  const auto* update = std::get_if<PlannedUpdate>(&collective.operation);
  return update != nullptr ? update->reduction.has_value() : collective.is<PlannedProductUpdate>();
}

// The first and last instructions that use a block of memory.
struct Uses {
  int first_access = std::numeric_limits<int>::max(), last_access = -1;
  int first_write = std::numeric_limits<int>::max(), last_write = -1;

  void Add(int instruction, bool is_write) {
    first_access = std::min(first_access, instruction);
    last_access = instruction;
    if (!is_write) return;
    first_write = std::min(first_write, instruction);
    last_write = instruction;
  }
  // Return the first and the last instruction that conflict with an access. A write conflicts with
  // every access, a read only with writes.
  int FirstConflict(bool is_write) const { return is_write ? first_access : first_write; }
  int LastConflict(bool is_write) const { return is_write ? last_access : last_write; }
};

// A finish instruction to move.
struct Late {
  int from = 0, to = 0;  // instruction indices
};

class Mover {
 public:
  explicit Mover(PlanState& s) : s_(s), plan_(*s.plan), uses_(s.storage.all.size()) {
    for (size_t i = 0; i < plan_.instructions.size(); ++i) ForgetRows(static_cast<int>(i));
    for (size_t i = 0; i < plan_.accesses.size(); ++i) {
      for (const MemoryAccess& access : plan_.accesses[i]) {
        uses_[MemoryOf(access.value)].Add(static_cast<int>(i), access.is_write);
      }
    }
  }

  bool Run() {
    const int count = static_cast<int>(plan_.instructions.size());
    for (int i = count - 1; i >= 0 && late_.size() < kMaxLate; --i) {
      if (plan_.instructions[i].kind != InstructionKind::kFinish || !MayBeLate(i)) continue;
      late_.push_back({.from = i, .to = FirstUse(i)});
    }
    if (late_.empty()) return false;
    absl::c_sort(late_, [](const Late& a, const Late& b) {
      return std::make_pair(a.to, a.from) < std::make_pair(b.to, b.from);
    });
    Move();
    return true;
  }

 private:
  // Returns the root storage that represents the block of memory at `root`. Each of a variable's
  // handles has its own root storage, but all of them have the same memory.
  int MemoryOf(int root) {
    const Storage& storage = s_.storage.all[root];
    if (storage.region == kNoRegion) return root;
    return memory_.try_emplace({storage.region, storage.offset}, root).first->second;
  }

  // Drops the accesses of a finish instruction to the rows that an update by product sends, because
  // the update copies these rows when it starts (team_update.cc).
  void ForgetRows(int finish) {
    const Instruction& instruction = plan_.instructions[finish];
    if (instruction.kind != InstructionKind::kFinish) return;
    const PlannedCollective& collective = plan_.collectives[instruction.index];
    const auto* product = std::get_if<PlannedProductUpdate>(&collective.operation);
    if (product == nullptr) return;
    std::vector<MemoryAccess>& uses = plan_.accesses[finish];
    const auto is_row = [&](const MemoryAccess& use) {
      return !use.is_write && (use.operand.offset == collective.in.offset ||
                               use.operand.offset == product->right.offset);
    };
    std::erase_if(uses, is_row);
  }

  bool MayBeLate(int finish) {
    if (!GoesOverDomains(plan_.collectives[plan_.instructions[finish].index])) return false;
    return absl::c_none_of(plan_.accesses[finish], [&](const MemoryAccess& access) {
      // Memory that holds feeds may no longer exist in the next run.
      const RegionId region = s_.storage.all[access.value].region;
      const bool is_fed = region >= Plan::kFirstFeedRegion &&
                          region < Plan::kFirstFeedRegion + static_cast<RegionId>(s_.feeds.size());
      const bool is_fetched = access.is_write && absl::c_any_of(s_.fetches, [&](const Output& o) {
                                const int root = s_.storage.RootOf(o);
                                return root >= 0 && MemoryOf(root) == MemoryOf(access.value);
                              });
      return is_fed || is_fetched ||
             uses_[MemoryOf(access.value)].LastConflict(access.is_write) > finish;
    });
  }

  // Returns the first instruction that conflicts with the update, which must finish before this
  // instruction of the next run. At the latest, this is the start of the update itself.
  int FirstUse(int finish) {
    int first = finish;
    for (const MemoryAccess& access : plan_.accesses[finish]) {
      first = std::min(first, uses_[MemoryOf(access.value)].FirstConflict(access.is_write));
    }
    return first;
  }

  void Move() {
    std::vector<Instruction> instructions;
    std::vector<std::vector<MemoryAccess>> accesses;
    const auto append = [&](Instruction instruction, std::vector<MemoryAccess> uses) {
      instructions.push_back(instruction);
      accesses.push_back(std::move(uses));
    };
    auto next = late_.begin();
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      for (; next != late_.end() && next->to == static_cast<int>(i); ++next) {
        Instruction finish = plan_.instructions[next->from];
        finish.kind = InstructionKind::kFinishLate;
        plan_.late.push_back(finish.index);
        // Everything that this run waits for is more urgent. Updates are sent after that, in the
        // order that the next run needs them in.
        plan_.collectives[finish.index].urgency = static_cast<int>(plan_.late.size());
        append(finish, plan_.accesses[next->from]);
        const EventId event = plan_.num_events++;
        append({.kind = InstructionKind::kRecord, .lane = finish.lane, .event = event}, {});
        append({.kind = InstructionKind::kWait, .lane = LaneKind::kCompute, .event = event}, {});
      }
      const auto moves = [i](const Late& late) { return late.from == static_cast<int>(i); };
      if (absl::c_none_of(late_, moves)) append(plan_.instructions[i], plan_.accesses[i]);
    }
    plan_.instructions = std::move(instructions);
    plan_.accesses = std::move(accesses);
  }

  PlanState& s_;
  Plan& plan_;
  std::map<std::pair<RegionId, int64_t>, int> memory_;  // root storage by address outside the arena
  std::vector<Uses> uses_;                              // by MemoryOf
  std::vector<Late> late_;
};

}  // namespace

absl::StatusOr<bool> FinishUpdatesLate::Run(PlanState& s) {
  if (!s.world.has_teams || s.world.one_domain() || s.is_body) return false;
  return Mover(s).Run();
}

}  // namespace mirrorflow
