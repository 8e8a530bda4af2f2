// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/check_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

// For each lane, the number of instructions that are known to be done.
using Clock = std::array<int, kNumLanes>;

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
      for (auto& [begin, cell] : cells) {
        cell.write.instruction = cell.write.instruction < 0 ? -1 : kLastRun;
        cell.reads.clear();
      }
    }
    return RunOnce();
  }

 private:
  // Represents any instruction of the previous run; all instructions of this run are ordered after
  // it.
  static constexpr int kLastRun = std::numeric_limits<int>::max();

  absl::Status RunOnce() {
    std::array<Clock, kNumLanes> now{};
    std::vector<Clock> recorded(plan_.num_events);
    std::vector<char> is_recorded(plan_.num_events, 0);
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      const Instruction& instruction = plan_.instructions[i];
      const int lane = static_cast<int>(instruction.lane);
      Clock& clock = now[lane];
      if (OrdersLanes(instruction.kind) &&
          (instruction.event < 0 || instruction.event >= plan_.num_events)) {
        return Error(i, "refers to an event that does not exist");
      }
      if (instruction.kind == InstructionKind::kWait) {
        if (!is_recorded[instruction.event])
          return Error(i, "waits for an event before it is recorded");
        for (int l = 0; l < kNumLanes; ++l) {
          clock[l] = std::max(clock[l], recorded[instruction.event][l]);
        }
      }
      ++clock[lane];
      if (instruction.kind == InstructionKind::kRecord) {
        if (is_recorded[instruction.event]) return Error(i, "records an event twice");
        is_recorded[instruction.event] = 1;
        recorded[instruction.event] = clock;
      }
      MF_RETURN_IF_ERROR(CheckCollective(static_cast<int>(i)));
      const Access self{static_cast<int>(i), lane, clock[lane]};
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
    std::map<int64_t, Cell>& cells = regions_[access.operand.region];
    Split(cells, begin);
    Split(cells, end);
    for (auto it = cells.find(begin); it != cells.end() && it->first < end; ++it) {
      Cell& cell = it->second;
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
      if (conflict(cell.write)) return report(cell.write);
      if (!access.is_write) {
        if (cell.write.instruction < 0 && StartsUndefined(access.operand.region)) {
          return Error(self.instruction, absl::StrCat("reads arena bytes [", begin, ", ", end,
                                                      ") that nothing wrote in this step"));
        }
        if (StartsUndefined(access.operand.region) && cell.value != access.value) {
          return Error(self.instruction, absl::StrCat("reads arena bytes [", begin, ", ", end,
                                                      ") after ", Describe(cell.write.instruction),
                                                      " overwrote them with another value"));
        }
        cell.reads.push_back(self);
        continue;
      }
      for (const Access& read : cell.reads) {
        if (conflict(read)) return report(read);
      }
      cell.reads.clear();
      cell.write = self;
      cell.value = access.value;
    }
    return absl::OkStatus();
  }

  // Splits the cell that contains `offset`, so that a cell starts there.
  static void Split(std::map<int64_t, Cell>& cells, int64_t offset) {
    if (cells.empty()) cells.emplace(0, Cell());
    auto it = cells.upper_bound(offset);
    it = std::prev(it);
    if (it->first != offset) cells.emplace_hint(std::next(it), offset, it->second);
  }

  // Checks the fetches, which the host reads after all lanes have finished.
  absl::Status CheckFetches() {
    for (size_t i = 0; i < plan_.fetches.size(); ++i) {
      const PlannedFetch& fetch = plan_.fetches[i];
      if (!StartsUndefined(fetch.operand.region)) continue;
      const int64_t begin = fetch.operand.offset;
      const int64_t end = begin + fetch.local_shape.num_elements() *
                                      static_cast<int64_t>(DataTypeSize(fetch.dtype));
      std::map<int64_t, Cell>& cells = regions_[fetch.operand.region];
      Split(cells, begin);
      Split(cells, end);
      for (auto it = cells.find(begin); it->first < end; ++it) {
        const Cell& cell = it->second;
        if (cell.write.instruction >= 0 && cell.value == fetch.value) continue;
        return absl::InternalError(absl::StrCat(
            "check plan: fetch ", i, " reads arena bytes [", begin, ", ", end, ") ",
            cell.write.instruction < 0 ? "that nothing wrote in this step"
                                       : absl::StrCat("after ", Describe(cell.write.instruction),
                                                      " overwrote them with another value")));
      }
    }
    return absl::OkStatus();
  }

  const Plan& plan_;
  std::map<RegionId, std::map<int64_t, Cell>> regions_;
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
