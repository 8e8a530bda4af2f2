// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/check_plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/plan/interval_map.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// For each lane, the number of instructions that are known to be done.
using Clock = std::vector<int>;

struct Access {
  int instruction;
  int lane;
  int position;  // index within its lane, from 1
};

// The last write of a byte range, and the reads since then.
struct Cell {
  Access write{-1, 0, 0};
  int32_t value = -1;
  std::vector<Access> reads;
};

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan) {}

  absl::Status Run() {
    MF_RETURN_IF_ERROR(RunOnce());
    if (plan_.late.empty()) return absl::OkStatus();
    // The second run starts with the first run's memory contents and with the collectives that are
    // still in flight.
    is_first_ = false;
    next_start_ = 0;
    for (auto& [region, cells] : regions_) {
      cells.ForEach([](Cell& cell) {
        cell.write.instruction = cell.write.instruction < 0 ? -1 : kLastRun;
        cell.reads.clear();
      });
    }
    return RunOnce();
  }

 private:
  // Represents any instruction of the previous run; all instructions of this run are ordered after
  // it.
  static constexpr int kLastRun = std::numeric_limits<int>::max();

  absl::Status RunOnce() {
    // With several threads per replica, each thread runs its instructions in order, whatever their
    // lanes.
    const bool by_thread = plan_.num_threads > 1;
    const int num_lanes = by_thread ? plan_.num_threads : kNumLanes;
    std::vector<Clock> now(num_lanes, Clock(num_lanes));
    Clock last_rejecting(num_lanes);   // by thread: the last instruction that can reject its data
    Clock last_finish(num_lanes);      // by thread: the last one that finishes a collective
    std::map<int32_t, Clock> awaited;  // by instruction: its thread's clock after it has run
    for (const ThreadWait& wait : plan_.waits) awaited.try_emplace(wait.other);
    auto next_wait = plan_.waits.begin();
    std::vector<Clock> recorded(plan_.num_events, Clock(num_lanes));
    std::vector<char> is_recorded(plan_.num_events, 0);
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const Instruction& instruction = plan_.instructions[i];
      const int lane = by_thread ? instruction.thread : static_cast<int>(instruction.lane);
      if (lane < 0 || lane >= num_lanes) return Error(i, "is on a thread that does not exist");
      Clock& clock = now[lane];
      for (; next_wait != plan_.waits.end() && next_wait->instruction == static_cast<int32_t>(i);
           ++next_wait) {
        if (next_wait->other >= next_wait->instruction) return Error(i, "waits for a later one");
        Merge(awaited[next_wait->other], &clock);
      }
      if (OrdersLanes(instruction.kind) &&
          (instruction.event < 0 || instruction.event >= plan_.num_events)) {
        return Error(i, "refers to an event that does not exist");
      }
      if (instruction.kind == InstructionKind::kWait) {
        if (!is_recorded[instruction.event])
          return Error(i, "waits for an event before it is recorded");
        Merge(recorded[instruction.event], &clock);
      }
      ++clock[lane];
      if (const auto it = awaited.find(static_cast<int32_t>(i)); it != awaited.end()) {
        it->second = clock;
      }
      if (instruction.kind == InstructionKind::kRecord) {
        if (is_recorded[instruction.event]) return Error(i, "records an event twice");
        is_recorded[instruction.event] = 1;
        recorded[instruction.event] = clock;
      }
      MF_RETURN_IF_ERROR(CheckCollective(static_cast<int>(i)));
      const Access self{static_cast<int>(i), lane, clock[lane]};
      if (by_thread) {
        if (CanReject(plan_, i)) last_rejecting[lane] = clock[lane];
        if (Finishes(instruction.kind)) last_finish[lane] = clock[lane];
        for (int l = 0; l < num_lanes && CommitsStep(plan_, i); ++l) {
          if (clock[l] < last_rejecting[l]) {
            return Error(i, "is not ordered after a kernel that can reject the step's data");
          }
          if (WritesVariable(plan_, i) && clock[l] < last_finish[l]) {
            return Error(i, "writes a variable, but is not ordered after an earlier collective");
          }
        }
      }
      if (IsSkipped(instruction)) continue;
      for (const MemoryAccess& access : plan_.accesses[i]) {
        if (!access.is_write) MF_RETURN_IF_ERROR(Visit(access, self, clock));
      }
      for (const MemoryAccess& access : plan_.accesses[i]) {
        if (!access.is_write) continue;
        MF_RETURN_IF_ERROR(CheckForms(access, i));
        MF_RETURN_IF_ERROR(Visit(access, self, clock));
      }
    }
    for (size_t c = 0; c < flight_.size(); ++c) {
      if (flight_[c] != absl::c_linear_search(plan_.late, static_cast<int32_t>(c))) {
        return absl::InternalError("check plan: a collective is never finished");
      }
    }
    return CheckFetches();
  }

  static void Merge(const Clock& from, Clock* to) {
    for (size_t l = 0; l < to->size(); ++l) (*to)[l] = std::max((*to)[l], from[l]);
  }

  std::string Describe(int i) const {
    if (i == kLastRun) return "an instruction of the previous run";
    const int32_t node = plan_.instructions[i].node;
    return absl::StrCat("instruction ", i,
                        node >= 0 ? absl::StrCat(" (", plan_.NodeText(node), ")") : "");
  }

  absl::Status Error(size_t i, absl::string_view what) const {
    return absl::InternalError(
        absl::StrCat("check plan: ", Describe(static_cast<int>(i)), " ", what));
  }

  absl::Status CheckCollective(int i) {
    const Instruction& instruction = plan_.instructions[i];
    if (instruction.kind == InstructionKind::kStart) {
      if (instruction.index != next_start_) {
        return Error(i, "starts a collective out of order");
      }
      if (flight_[instruction.index]) return Error(i, "starts a collective that is in flight");
      flight_[instruction.index] = true;
      ++next_start_;
    } else if (Finishes(instruction.kind)) {
      if (IsSkipped(instruction)) return absl::OkStatus();
      const bool is_late = instruction.kind == InstructionKind::kFinishLate;
      // Collectives that finish late may finish in any order.
      bool in_order = true;
      for (int c = 0; c < instruction.index && !is_late; ++c) {
        in_order = in_order && (!flight_[c] || absl::c_linear_search(plan_.late, c));
      }
      if (!flight_[instruction.index] || !in_order) {
        return Error(i, "finishes a collective out of order");
      }
      flight_[instruction.index] = false;
    }
    return absl::OkStatus();
  }

  // Checks a write. A run makes its forms before the first instruction, and not again.
  absl::Status CheckForms(const MemoryAccess& write, size_t i) const {
    if (write.bytes == 0) return absl::OkStatus();
    const int64_t begin = write.operand.offset, end = begin + write.extent();
    for (size_t f = 0; f < plan_.forms.size(); ++f) {
      if (write.operand.region == plan_.form_region(static_cast<int>(f))) {
        return Error(i, absl::StrCat("writes form ", f));
      }
      for (const FormOperand& operand : plan_.forms[f].operands) {
        const int64_t source = operand.source.offset;
        if (operand.variable >= 0 && write.operand.region == operand.source.region &&
            begin < source + operand.source_bytes && source < end) {
          return Error(i, absl::StrCat("writes the variable of form ", f));
        }
      }
    }
    return absl::OkStatus();
  }

  // The first run skips late finishes, because no collective is in flight when it starts.
  bool IsSkipped(const Instruction& instruction) const {
    return instruction.kind == InstructionKind::kFinishLate && is_first_;
  }

  // Returns true for memory whose contents are undefined until this step writes them.
  bool StartsUndefined(RegionId region) const { return region == Plan::kArenaRegion; }

  absl::Status Visit(const MemoryAccess& access, const Access& self, const Clock& clock) {
    if (access.bytes == 0) return absl::OkStatus();
    for (int64_t row = 0; row < access.rows; ++row) {
      const int64_t begin = access.operand.offset + row * access.row_stride;
      MF_RETURN_IF_ERROR(VisitRow(access, begin, begin + access.row_bytes(), self, clock));
    }
    return absl::OkStatus();
  }

  absl::Status VisitRow(const MemoryAccess& access, int64_t begin, int64_t end, const Access& self,
                        const Clock& clock) {
    absl::Status status;
    regions_[access.operand.region].ForEach(begin, end, [&](Cell& cell) {
      auto conflict = [&](const Access& other) {
        // One instruction can both read and write the bytes (in-place kernels, updates).
        return other.instruction >= 0 && other.instruction != self.instruction &&
               other.instruction != kLastRun && clock[other.lane] < other.position;
      };
      auto report = [&](const Access& other) {
        return Error(self.instruction,
                     absl::StrCat(access.is_write ? "writes" : "reads", " region ",
                                  access.operand.region, " bytes [", begin, ", ", end,
                                  ") and is not ordered after ", Describe(other.instruction)));
      };
      if (conflict(cell.write)) {
        status = report(cell.write);
      } else if (access.is_write) {
        for (const Access& read : cell.reads) {
          if (conflict(read)) status = report(read);
        }
        cell.reads.clear();
        cell.write = self;
        cell.value = access.value;
      } else if (cell.write.instruction < 0 && StartsUndefined(access.operand.region)) {
        status = Error(self.instruction, absl::StrCat("reads arena bytes [", begin, ", ", end,
                                                      ") that nothing wrote in this step"));
      } else if (StartsUndefined(access.operand.region) && cell.value != access.value) {
        status = Error(self.instruction, absl::StrCat("reads arena bytes [", begin, ", ", end,
                                                      ") after ", Describe(cell.write.instruction),
                                                      " overwrote them with another value"));
      } else {
        cell.reads.push_back(self);
      }
      return status.ok();
    });
    return status;
  }

  // Checks the fetches, which the host reads after all lanes have finished.
  absl::Status CheckFetches() {
    for (size_t i = 0; i < plan_.fetches.size(); ++i) {
      const PlannedFetch& fetch = plan_.fetches[i];
      if (!StartsUndefined(fetch.operand.region)) continue;
      const int64_t begin = fetch.operand.offset;
      const int64_t end = begin + fetch.local_shape.num_elements() *
                                      static_cast<int64_t>(DataTypeSize(fetch.dtype));
      absl::Status status;
      regions_[fetch.operand.region].ForEach(begin, end, [&](const Cell& cell) {
        if (cell.write.instruction >= 0 && cell.value == fetch.value) return true;
        status = absl::InternalError(absl::StrCat(
            "check plan: fetch ", i, " reads arena bytes [", begin, ", ", end, ") ",
            cell.write.instruction < 0 ? "that nothing wrote in this step"
                                       : absl::StrCat("after ", Describe(cell.write.instruction),
                                                      " overwrote them with another value")));
        return false;
      });
      MF_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  std::map<RegionId, IntervalMap<Cell>> regions_;
  bool is_first_ = true;
  int next_start_ = 0;
  std::vector<bool> flight_ = std::vector<bool>(plan_.collectives.size());  // by collective
};

}  // namespace

absl::Status CheckPlan::Check(const Plan& plan) { return Checker(plan).Run(); }

absl::StatusOr<bool> CheckPlan::Run(PlanState& s) {
  if (s.options.check_plan) MF_RETURN_IF_ERROR(Check(*s.plan));
  return false;
}

}  // namespace mirrorflow
