// SPDX-License-Identifier: Apache-2.0
#include "framework/runtime/plan.h"

#include <algorithm>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace mirrorflow {
namespace {

// Reading the clock takes as long as running three small kernels, so the deadline is checked only
// before finishing a collective, before the first write of a variable, and after this many
// instructions.
constexpr int kInstructionsBetweenDeadlineChecks = 64;

// Verbs for instructions, by kind. The name of the node or event follows.
constexpr absl::string_view kVerbs[] = {
    "run ",    "copy for ", "start ",  "finish ",   "finish of the last run ",
    "branch ", "loop ",     "record ", "wait for ", "await "};
static_assert(std::size(kVerbs) == static_cast<size_t>(InstructionKind::kAwait) + 1);

// Builds the dispatch list of one thread. For each of its instructions i, sets positions[i] to the
// number of list entries up to and including it. The `event` of a kAwait is the index of the
// awaited instruction; MakeDispatchLists replaces it with that instruction's position.
DispatchList ListOfThread(const Plan& plan, int thread, bool one_lane,
                          std::vector<int32_t>& positions) {
  DispatchList list;
  int first_write = -1;
  auto wait = plan.waits.begin();
  const auto append = [&list](const Instruction& instruction, size_t original) {
    list.original.push_back(static_cast<int32_t>(original));
    list.instructions.push_back(instruction);
  };
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    if (instruction.thread != thread || (OrdersLanes(instruction.kind) && one_lane)) continue;
    const int at = static_cast<int>(list.instructions.size());
    const bool is_first_write = first_write < 0 && WritesVariable(plan, i);
    const int last_stop = list.stops.empty() ? 0 : list.stops.back();
    const bool look = Finishes(instruction.kind) || is_first_write ||
                      at - last_stop >= kInstructionsBetweenDeadlineChecks;
    if (look && at > 0) list.stops.push_back(at);
    while (wait != plan.waits.end() && wait->instruction < static_cast<int32_t>(i)) ++wait;
    for (; wait != plan.waits.end() && wait->instruction == static_cast<int32_t>(i); ++wait) {
      append({.kind = InstructionKind::kAwait,
              .thread = static_cast<int16_t>(thread),
              .index = plan.instructions[wait->other].thread,
              .event = wait->other},
             i);
    }
    if (is_first_write) first_write = static_cast<int>(list.instructions.size());
    append(instruction, i);
    if (one_lane) list.instructions.back().lane = LaneKind::kCompute;
    positions[i] = static_cast<int32_t>(list.instructions.size());
  }
  const int count = static_cast<int>(list.instructions.size());
  list.stops.push_back(count);
  list.first_write = first_write < 0 ? count : first_write;
  return list;
}

}  // namespace

absl::string_view PlannedCollective::kind() const {
  constexpr absl::string_view kNames[] = {"barrier",    "all-reduce", "reduce-scatter",
                                          "all-gather", "update",     "update by product"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(operation)>);
  return kNames[operation.index()];
}

bool WritesVariable(const Plan& plan, size_t i) {
  const Instruction& instruction = plan.instructions[i];
  if (instruction.kind != InstructionKind::kKernel || instruction.num_outputs > 0) return false;
  const std::vector<MemoryAccess>& accesses = plan.accesses[i];
  return std::any_of(accesses.begin(), accesses.end(), [&](const MemoryAccess& access) {
    return access.is_write && access.operand.region >= plan.layout_region(0);
  });
}

bool CommitsStep(const Plan& plan, size_t i) {
  return plan.instructions[i].kind == InstructionKind::kStart || WritesVariable(plan, i);
}

bool CanReject(const Plan& plan, size_t i) {
  const Instruction& instruction = plan.instructions[i];
  if (instruction.kind == InstructionKind::kKernel)
    return plan.kernel_fails[instruction.index] != 0;
  if (!RunsPlans(instruction.kind)) return false;
  const auto& plans = plan.controls[instruction.index].plans;
  return plans[0]->fails_on_data || plans[1]->fails_on_data;
}

void MakeDispatchLists(Plan& plan, bool one_lane) {
  std::vector<int32_t> positions(plan.instructions.size());
  plan.dispatch = ListOfThread(plan, 0, one_lane, positions);
  plan.dispatch_of_others.clear();
  for (int thread = 1; thread < plan.num_threads; ++thread) {
    plan.dispatch_of_others.push_back(ListOfThread(plan, thread, one_lane, positions));
  }
  const auto resolve = [&positions](DispatchList& list) {
    for (Instruction& instruction : list.instructions) {
      if (instruction.kind != InstructionKind::kAwait) continue;
      instruction.event = positions[instruction.event];
    }
  };
  resolve(plan.dispatch);
  for (DispatchList& list : plan.dispatch_of_others) resolve(list);
}

std::string LargestValues(const Plan& plan) {
  constexpr size_t kMaxValues = 5;
  struct Value {
    int64_t bytes;
    int32_t node;
  };
  // By value. The first node that accesses all of a value produces it.
  absl::flat_hash_map<int32_t, Value> by_id;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    if (plan.instructions[i].node < 0) continue;
    for (const MemoryAccess& access : plan.accesses[i]) {
      if (access.operand.region != Plan::kArenaRegion) continue;
      Value& value = by_id.try_emplace(access.value, Value{-1, -1}).first->second;
      if (access.bytes > value.bytes) value = {access.bytes, plan.instructions[i].node};
    }
  }
  std::vector<Value> values;
  for (const auto& [id, value] : by_id) values.push_back(value);
  std::sort(values.begin(), values.end(), [](const Value& a, const Value& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.node < b.node;
  });
  values.resize(std::min(values.size(), kMaxValues));
  return absl::StrJoin(values, ", ", [&](std::string* to, const Value& value) {
    absl::StrAppend(to, plan.NodeText(value.node), " with ", value.bytes, " bytes");
  });
}

int64_t Plan::form_making_bytes() const {
  std::vector<int> readers(forms.size());
  for (const PlannedForm& form : forms) {
    for (const FormOperand& operand : form.operands) {
      if (operand.form >= 0) ++readers[operand.form];
    }
  }
  // As in BoundForms::RefreshAll.
  int64_t live = 0, peak = 0;
  for (const PlannedForm& form : forms) {
    if (!form.kept) live += form.bytes;
    peak = std::max(peak, live + form.scratch_bytes);
    for (const FormOperand& operand : form.operands) {
      if (operand.form >= 0 && --readers[operand.form] == 0 && !forms[operand.form].kept) {
        live -= forms[operand.form].bytes;
      }
    }
  }
  return peak;
}

int64_t Plan::form_bytes() const {
  int64_t bytes = 0;
  for (const PlannedForm& form : forms) bytes += form.kept ? form.bytes : 0;
  return bytes;
}

std::string Plan::NodeText(int32_t node) const {
  return node < 0 ? "" : absl::StrCat(node_ops[node], "(", node_names[node], ")");
}

std::string Plan::ToString() const {
  std::string text;
  for (size_t i = 0; i < forms.size(); ++i) {
    const PlannedForm& planned = forms[i];
    const int number = static_cast<int>(i);
    absl::StrAppend(&text, "form ", number);
    if (planned.kept) absl::StrAppend(&text, " in region ", form_region(number));
    absl::StrAppend(&text, ", ", planned.bytes, " bytes: ", planned.name, " of");
    for (const FormOperand& operand : planned.operands) {
      if (operand.form >= 0) {
        absl::StrAppend(&text, " form ", operand.form);
      } else if (operand.variable >= 0) {
        absl::StrAppend(&text, " variable r", operand.source.region, "+", operand.source.offset);
      } else {
        absl::StrAppend(&text, " a constant");
      }
    }
    absl::StrAppend(&text, "\n");
  }
  auto wait = waits.begin();
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    absl::StrAppend(&text, i, " ", kLaneNames[static_cast<int>(instruction.lane)], " ");
    if (num_threads > 1) absl::StrAppend(&text, "thread ", instruction.thread, " ");
    for (; wait != waits.end() && wait->instruction == static_cast<int32_t>(i); ++wait) {
      absl::StrAppend(&text, "after ", wait->other, " ");
    }
    absl::StrAppend(&text, kVerbs[static_cast<int>(instruction.kind)],
                    OrdersLanes(instruction.kind) ? absl::StrCat("event ", instruction.event)
                                                  : NodeText(instruction.node));
    for (const MemoryAccess& access : accesses[i]) {
      absl::StrAppend(&text, " ", access.is_write ? "w" : "r", access.operand.region, "+",
                      access.operand.offset, ":", access.bytes);
      if (access.rows > 1) absl::StrAppend(&text, "/", access.rows, "@", access.row_stride);
    }
    text += '\n';
    if (!RunsPlans(instruction.kind)) continue;
    for (const std::shared_ptr<const Plan>& inner : controls[instruction.index].plans) {
      for (absl::string_view line : absl::StrSplit(inner->ToString(), '\n', absl::SkipEmpty())) {
        absl::StrAppend(&text, "  ", line, "\n");
      }
      text += "  --\n";
    }
  }
  return text;
}

}  // namespace mirrorflow
