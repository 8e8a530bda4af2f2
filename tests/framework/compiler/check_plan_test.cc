// SPDX-License-Identifier: Apache-2.0
//
// Tests CheckPlan on a small valid plan, and on one violation of each rule that it checks.
#include "framework/compiler/plan/check_plan.h"

#include <functional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr RegionId kArena = Plan::kArenaRegion, kVariables = Plan::kFirstFeedRegion;
constexpr LaneKind kCompute = LaneKind::kCompute, kCommunicate = LaneKind::kCommunicate;

MemoryAccess Reads(RegionId region, int64_t offset, int value) {
  return {{region, offset}, 64, false, value};
}
MemoryAccess Writes(RegionId region, int64_t offset, int value) {
  return {{region, offset}, 64, true, value};
}

// Instruction indices in ValidPlan().
enum Position {
  kGradient0,
  kRecord0,
  kWait0,
  kStart0,
  kGradient1,
  kRecord1,
  kWait1,
  kStart1,
  kFinish0,
  kFinish1,
  kRecord2,
  kWait2,
  kUpdate,
};

// Returns a plan that computes two gradients, reduces each in a collective and updates a variable.
// The first collective is in flight while the second gradient is computed.
Plan ValidPlan() {
  Plan plan;
  plan.num_events = 3;
  plan.num_layout_regions = 1;
  plan.collectives.resize(2);
  plan.node_names = {"gradient0", "gradient1", "reduce0", "reduce1", "update"};
  plan.node_ops = {"MatMul", "MatMul", "AllReduce", "AllReduce", "Update"};
  auto add = [&](Instruction instruction, std::vector<MemoryAccess> accesses) {
    plan.instructions.push_back(instruction);
    plan.accesses.push_back(std::move(accesses));
  };
  auto order = [&](EventId event) {
    const bool to_compute = event == 2;
    add({.kind = InstructionKind::kRecord,
         .lane = to_compute ? kCommunicate : kCompute,
         .event = event},
        {});
    add({.kind = InstructionKind::kWait,
         .lane = to_compute ? kCompute : kCommunicate,
         .event = event},
        {});
  };
  auto collective = [&](InstructionKind kind, int i) {
    add({.kind = kind, .lane = kCommunicate, .index = i, .node = 2 + i},
        {Reads(kArena, 64 * i, i), Writes(kArena, 64 * i, i)});
  };
  for (int i = 0; i < 2; ++i) {
    add({.kind = InstructionKind::kKernel, .node = i}, {Writes(kArena, 64 * i, i)});
    order(i);
    collective(InstructionKind::kStart, i);
  }
  for (int i = 0; i < 2; ++i) collective(InstructionKind::kFinish, i);
  order(2);
  add({.kind = InstructionKind::kKernel, .node = 4},
      {Reads(kArena, 0, 0), Reads(kArena, 64, 1), Writes(kVariables, 0, 2)});
  PlannedFetch fetch;
  fetch.operand = {kArena, 64};
  fetch.local_shape = Shape({16});
  fetch.value = 1;
  plan.fetches.push_back(std::move(fetch));
  return plan;
}

void Erase(Plan& plan, int i) {
  plan.instructions.erase(plan.instructions.begin() + i);
  plan.accesses.erase(plan.accesses.begin() + i);
}

void Swap(Plan& plan, int i, int j) {
  std::swap(plan.instructions[i], plan.instructions[j]);
  std::swap(plan.accesses[i], plan.accesses[j]);
}

TEST(CheckPlanTest, AcceptsValidPlan) {
  const absl::Status status = CheckPlan::Check(ValidPlan());
  EXPECT_TRUE(status.ok()) << status;
}

struct Violation {
  const char* name;
  void (*plant)(Plan&);
  const char* place;
  const char* token;
  const char* other = "";
};

constexpr Violation kViolations[] = {
    {"EventDoesNotExist", [](Plan& p) { p.instructions[kRecord1].event = 3; }, "instruction 5",
     "event", "exist"},
    {"WaitPrecedesRecord", [](Plan& p) { Swap(p, kRecord0, kWait0); }, "instruction 1", "event",
     "before it is recorded"},
    {"EventRecordedTwice", [](Plan& p) { p.instructions[kRecord1].event = 0; }, "instruction 5",
     "event", "twice"},
    {"WaitIsMissing", [](Plan& p) { Erase(p, kWait0); }, "instruction 2 (AllReduce(reduce0))",
     "reads region 2 bytes [0, 64)", "after instruction 0 (MatMul(gradient0))"},
    {"WaitForWrongEvent", [](Plan& p) { p.instructions[kWait1].event = 0; },
     "instruction 7 (AllReduce(reduce1))", "reads region 2 bytes [64, 128)",
     "after instruction 4 (MatMul(gradient1))"},
    {"UpdateDoesNotWait", [](Plan& p) { Erase(p, kWait2); }, "instruction 11 (Update(update))",
     "reads region 2 bytes [0, 64)", "after instruction 8 (AllReduce(reduce0))"},
    {"WriteOverOperandInFlight",
     [](Plan& p) { p.accesses[kGradient1].push_back(Writes(kArena, 32, 7)); },
     "instruction 4 (MatMul(gradient1))", "writes region 2 bytes [32, 96)",
     "after instruction 3 (AllReduce(reduce0))"},
    {"RowWrittenOverOperandInFlight",
     [](Plan& p) {
       MemoryAccess rows = Writes(kArena, 32, 7);
       rows.rows = 2;
       rows.row_stride = 128;
       p.accesses[kGradient1].push_back(rows);
     },
     "instruction 4 (MatMul(gradient1))", "writes region 2 bytes [32, 64)",
     "after instruction 3 (AllReduce(reduce0))"},
    {"WriteToVariableOfForm",
     [](Plan& p) {
       PlannedForm form;
       form.operands = {{.variable = 0, .source = {kVariables, 0}, .source_bytes = 64}};
       p.forms.push_back(std::move(form));
     },
     "instruction 12 (Update(update))", "writes", "the variable of form 0"},
    {"WriteToForm",
     [](Plan& p) {
       p.forms.emplace_back();
       p.accesses[kGradient1].push_back(Writes(p.form_region(0), 0, 7));
     },
     "instruction 4 (MatMul(gradient1))", "writes", "form 0"},
    {"CollectivesStartOutOfOrder",
     [](Plan& p) {
       p.instructions[kStart0].index = 1;
       p.instructions[kStart1].index = 0;
     },
     "instruction 3 (AllReduce(reduce0))", "starts", "out of order"},
    {"CollectivesFinishOutOfOrder", [](Plan& p) { Swap(p, kFinish0, kFinish1); },
     "instruction 8 (AllReduce(reduce1))", "finishes", "out of order"},
    {"FinishPrecedesStart", [](Plan& p) { Swap(p, kStart1, kFinish1); }, "finishes",
     "out of order"},
    {"CollectiveNeverFinished", [](Plan& p) { Erase(p, kFinish1); }, "a collective",
     "never finished"},
    {"ReadOfUnwrittenBytes", [](Plan& p) { p.accesses[kUpdate].push_back(Reads(kArena, 96, 1)); },
     "instruction 12 (Update(update))", "reads arena bytes [96, 160)", "nothing wrote"},
    {"LiveBytesOverwritten", [](Plan& p) { p.accesses[kStart1].push_back(Writes(kArena, 0, 7)); },
     "instruction 8 (AllReduce(reduce0))", "reads arena bytes [0, 64)",
     "after instruction 7 (AllReduce(reduce1))"},
    {"FetchOfUnwrittenBytes", [](Plan& p) { p.fetches[0].operand.offset = 96; }, "fetch 0",
     "arena bytes [96, 160)", "nothing wrote"},
    {"FetchOfOverwrittenBytes",
     [](Plan& p) { p.accesses[kUpdate].push_back(Writes(kArena, 64, 7)); }, "fetch 0",
     "arena bytes [64, 128)", "after instruction 12 (Update(update))"},
};

// Returns a plan whose second collective is finished by the next run, before anything uses that
// collective's gradient.
Plan LatePlan() {
  Plan plan = ValidPlan();
  plan.fetches.clear();
  plan.accesses[kUpdate].erase(plan.accesses[kUpdate].begin() + 1);
  const Instruction finish = plan.instructions[kFinish1];
  const std::vector<MemoryAccess> uses = plan.accesses[kFinish1];
  Erase(plan, kFinish1);
  for (const Instruction& added :
       {Instruction{.kind = InstructionKind::kWait, .event = 3},
        Instruction{.kind = InstructionKind::kRecord, .lane = kCommunicate, .event = 3},
        Instruction{.kind = InstructionKind::kFinishLate,
        .lane = finish.lane,
        .index = finish.index,
        .node = finish.node}}) {
    plan.instructions.insert(plan.instructions.begin(), added);
    plan.accesses.insert(plan.accesses.begin(), added.kind == InstructionKind::kFinishLate
                                                    ? uses
                                                    : std::vector<MemoryAccess>());
  }
  plan.num_events = 4;
  plan.late = {1};
  return plan;
}

TEST(CheckPlanTest, AcceptsLateFinish) {
  const absl::Status status = CheckPlan::Check(LatePlan());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(CheckPlanTest, LateFinishViolationsAreReported) {
  constexpr int kAdded = 3;
  const struct {
    const char* place;
    const char* token;
    std::function<void(Plan&)> plant;
  } cases[] = {
      {"a collective", "never finished", [](Plan& p) { p.late.clear(); }},
      {"starts", "in flight",
       [](Plan& p) {
         for (int i = 0; i < kAdded; ++i) Erase(p, 0);
       }},
      {"reads arena bytes [64, 128)", "the previous run",
       [](Plan& p) { p.accesses.back().push_back(Writes(kArena, 64, 7)); }},
      {"writes region 2 bytes [64, 128)", "after instruction 0 (AllReduce(reduce1))",
       [](Plan& p) { Erase(p, 2); }},
  };
  for (const auto& c : cases) {
    Plan plan = LatePlan();
    c.plant(plan);
    EXPECT_THAT(CheckPlan::Check(plan), IsError(absl::StatusCode::kInternal, c.place, c.token));
  }
}

class CheckPlanViolationTest : public testing::TestWithParam<Violation> {};

TEST_P(CheckPlanViolationTest, ErrorNamesPlaceOfViolation) {
  Plan plan = ValidPlan();
  GetParam().plant(plan);
  EXPECT_THAT(CheckPlan::Check(plan), IsError(absl::StatusCode::kInternal, GetParam().place,
                                              GetParam().token, GetParam().other));
}

INSTANTIATE_TEST_SUITE_P(All, CheckPlanViolationTest, testing::ValuesIn(kViolations),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mirrorflow
