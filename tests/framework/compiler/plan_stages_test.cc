// SPDX-License-Identifier: Apache-2.0
//
// Tests the stages of the compiler's second half on steps that are given as text.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/compiler/plan/assign_storage.h"
#include "framework/compiler/plan/check_plan.h"
#include "framework/compiler/plan/choose_kernels.h"
#include "framework/compiler/plan/emit_instructions.h"
#include "framework/compiler/plan/guard_writes.h"
#include "framework/compiler/plan/infer_local_shapes.h"
#include "framework/compiler/plan/order_threads.h"
#include "framework/compiler/plan/plan_memory.h"
#include "framework/compiler/plan/schedule_nodes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/compilation.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

// A step and the state of its plan. The constructor's `collectives` are the collectives' names in
// order.
struct StepPlan {
  StepPlan(absl::string_view text, const StepNames& names,
           const std::vector<std::string>& collectives = {}, const DeviceTraits& traits = {}) {
    auto parsed = ParseStep(text, names);
    status = parsed.status();
    if (!status.ok()) return;
    step = *std::move(parsed);
    for (const std::string& name : collectives) {
      step->c.collectives.push_back(step->c.graph.FindNode(name));
    }
    state = std::make_unique<PlanState>(step->c, std::vector<int64_t>(), traits, nullptr);
  }

  template <typename... P>
  bool Run(P... stages) {
    if (status.ok()) status = RunPasses(*state, std::move(stages)...);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok();
  }
  Output output(absl::string_view node) const { return state->graph.FindNode(node)->output(0); }
  int root(absl::string_view node) const { return state->storage.RootOf(output(node)); }

  absl::Status status;
  std::unique_ptr<TestCompilation> step;
  std::unique_ptr<PlanState> state;
};

TEST(InferLocalShapesTest, ShardedValuesHaveRowsOfOneReplica) {
  const auto step = ParseStep(R"(
x = Placeholder() {dtype=float, shape=<6,3>}
w = Placeholder() {dtype=float, shape=<3>}
y = AddV2(x, w) {T=float}
)",
                              {.feeds = {{"x", {6, 3}}, {"w", {3}}}, .fetches = {"y"}});
  ASSERT_TRUE(step.ok()) << step.status();
  Compilation& c = (*step)->c;
  c.axes = {{.size = 3}};
  for (const char* name : {"x", "y"}) {
    c.shardings.Set(c.graph.FindNode(name)->output(0), Sharded{.axis = 0, .dim = 0, .factor = 2});
  }
  for (const int64_t rows : {0, 2}) {
    PlanState s(c, {rows}, DeviceTraits(), nullptr);
    ASSERT_TRUE(RunPasses(s, InferLocalShapes()).ok());
    EXPECT_EQ(s.local_shape(s.fetches[0]), Shape({2 * rows, 3}));
    EXPECT_EQ(s.local_shape(s.feeds[1]), Shape({3}));
    EXPECT_EQ(s.plan->feeds[0].local_shape, Shape({2 * rows, 3}));
    EXPECT_EQ(s.plan->feeds[0].global_shape, Shape({6, 3}));
    EXPECT_EQ(s.plan->fetches[0].local_shape, Shape({2 * rows, 3}));
    EXPECT_EQ(s.plan->fetches[0].global_shape, Shape({6, 3}));
  }
}

constexpr char kProducts[] = R"(
v = VarHandleOp() {dtype=float, shape=<4,5>}
x = Placeholder() {dtype=float, shape=<3,4>}
sizes = Const() {dtype=int32, value=int32<1>{15}}
read = ReadVariableOp(v) {dtype=float}
copied = ReadVariableOp(v) {dtype=float, _copy=true}
y = MatMul(x, read) {T=float}
flat = Reshape(y, sizes) {T=float}
write = AssignVariableOp(v, copied) {dtype=float}
)";

TEST(ChooseKernelsTest, NodesThatComputeOrCopyHaveKernels) {
  StepPlan plan(kProducts, {.feeds = {{"x", {3, 4}}}, .fetches = {"flat"}, .targets = {"write"}});
  ASSERT_TRUE(plan.Run(InferLocalShapes(), ChooseKernels()));
  std::vector<std::string> names;
  for (const Node* node : plan.state->graph.Nodes()) {
    if (plan.state->kernel_plans[node->id()].kernel != nullptr) names.push_back(node->name());
  }
  EXPECT_EQ(absl::StrJoin(names, " "), "copied y write");
  EXPECT_EQ(plan.state->plan->flops, 2 * 3 * 4 * 5);
  EXPECT_FALSE(plan.state->plan->fails_on_data);
}

TEST(ChooseKernelsTest, ErrorForOpWithoutKernelNamesNode) {
  StepPlan plan(kProducts, {.feeds = {{"x", {3, 4}}}, .fetches = {"flat"}}, {}, {.type = "XPU"});
  const absl::Status status = RunPasses(*plan.state, InferLocalShapes(), ChooseKernels());
  EXPECT_THAT(status, IsError(absl::StatusCode::kUnimplemented, "copied"));
}

// Returns the graph after GuardWrites and the order of its collectives. The kernel of `check` can
// fail because of its data.
std::string Guarded(absl::string_view text, const StepNames& names,
                    const std::vector<std::string>& collectives = {}, bool shard = true) {
  StepPlan plan(text, names, collectives);
  if (!plan.status.ok()) return plan.status.ToString();
  PlanState& s = *plan.state;
  s.shard = shard;
  s.kernel_plans.resize(s.graph.id_limit());
  s.kernel_plans[plan.output("check").node->id()].fails_on_data = true;
  if (!plan.Run(GuardWrites())) return plan.status.ToString();
  std::string result = StepToText(s) + "collectives:";
  for (const Node* node : s.collectives) absl::StrAppend(&result, " ", node->name());
  return result;
}

// When a rank has finished `r`, the check has passed on every rank.
TEST(GuardWritesTest, ChecksPrecedeCollectiveAndWritesFollowIt) {
  EXPECT_EQ(Guarded(R"(
v = VarHandleOp() {dtype=float, shape=<2>}
w = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
free = AssignAddVariableOp(v, x) {dtype=float}
first = AllReduce(x) {N=1, T=float}
check = Sign(first) {T=float}
r = AllReduce(x) {N=1, T=float}
u = AssignSubVariableOp(w, r) {dtype=float}
)",
                    {.feeds = {{"x", {2}}}, .fetches = {"check"}, .targets = {"u", "free"}},
                    {"first", "r"}),
            "v = VarHandleOp()\n"
            "w = VarHandleOp()\n"
            "x = Placeholder()\n"
            "first = AllReduce(x)\n"
            "check = Sign(first)\n"
            "r = AllReduce(x, ^check)\n"
            "free = AssignAddVariableOp(v, x, ^r)\n"
            "u = AssignSubVariableOp(w, r, ^r)\n"
            "collectives: first r");
}

constexpr char kCheckedWrite[] = R"(
v = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
write = AssignVariableOp(v, x) {dtype=float}
check = Sign(x) {T=float}
)";
const StepNames& CheckedNames() {
  static const StepNames names = {
      .feeds = {{"x", {2}}}, .fetches = {"check"}, .targets = {"write"}};
  return names;
}

TEST(GuardWritesTest, BarrierIsAddedIfNoCollectiveFollowsAllChecks) {
  EXPECT_EQ(Guarded(kCheckedWrite, CheckedNames()),
            "v = VarHandleOp()\n"
            "x = Placeholder()\n"
            "check = Sign(x)\n"
            "before_writes = Barrier(^check)\n"
            "write = AssignVariableOp(v, x, ^before_writes)\n"
            "collectives: before_writes");
}

TEST(GuardWritesTest, OneDeviceNeedsNoBarrier) {
  EXPECT_EQ(Guarded(kCheckedWrite, CheckedNames(), {}, /*shard=*/false),
            "v = VarHandleOp()\n"
            "x = Placeholder()\n"
            "check = Sign(x)\n"
            "write = AssignVariableOp(v, x, ^check)\n"
            "collectives:");
}

TEST(GuardWritesTest, WriteOrderedBeforeCheckIsUnchanged) {
  EXPECT_EQ(Guarded(R"(
v = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
write = AssignVariableOp(v, x) {dtype=float}
read = ReadVariableOp(v, ^write) {dtype=float}
check = Sign(read) {T=float}
)",
                    CheckedNames()),
            "v = VarHandleOp()\n"
            "x = Placeholder()\n"
            "write = AssignVariableOp(v, x)\n"
            "read = ReadVariableOp(v, ^write)\n"
            "check = Sign(read)\n"
            "collectives:");
}

// A control edge would force a rank to finish the first collective before it starts the second.
TEST(GuardWritesTest, LaterCollectiveUpdatesNeedNoControlEdges) {
  EXPECT_EQ(Guarded(R"(
v = VarHandleOp() {dtype=float, shape=<2>, shared_name="v"}
w = VarHandleOp() {dtype=float, shape=<2>, shared_name="w"}
rate = Placeholder() {dtype=float, shape=<>}
x = Placeholder() {dtype=float, shape=<2>}
check = Sign(x) {T=float}
u1 = ResourceApplyGradientDescent(v, rate, x) {T=float, _reduction="sum"}
u2 = ResourceApplyGradientDescent(w, rate, x) {T=float, _reduction="sum"}
)",
                    {.fetches = {"check"}, .targets = {"u1", "u2"}}, {"u1", "u2"}),
            "v = VarHandleOp()\n"
            "w = VarHandleOp()\n"
            "rate = Placeholder()\n"
            "x = Placeholder()\n"
            "check = Sign(x)\n"
            "u1 = ResourceApplyGradientDescent(v, rate, x, ^check)\n"
            "u2 = ResourceApplyGradientDescent(w, rate, x)\n"
            "collectives: u1 u2");
}

// Runs the stages up to and including AssignStorage.
bool Assign(StepPlan& plan) {
  return plan.Run(InferLocalShapes(), ChooseKernels(), ScheduleNodes(), AssignStorage());
}

TEST(AssignStorageTest, ViewsReadsAndDyingInputsShareMemory) {
  StepPlan plan(R"(
v = VarHandleOp() {dtype=float, shape=<4>}
x = Placeholder() {dtype=float, shape=<4>}
sizes = Const() {dtype=int32, value=int32<2>{2, 2}}
read = ReadVariableOp(v) {dtype=float}
a = AddV2(x, read) {T=float}
b = Neg(a) {T=float}
view = Reshape(b, sizes) {T=float}
used_twice = Neg(view) {T=float}
c = Neg(used_twice) {T=float}
d = Mul(c, used_twice) {T=float}
)",
                {.feeds = {{"x", {4}}}, .fetches = {"d", "b"}});
  ASSERT_TRUE(Assign(plan));
  EXPECT_EQ(plan.root("read"), plan.root("v"));
  EXPECT_NE(plan.root("a"), plan.root("x"));  // feeds must not be overwritten
  EXPECT_EQ(plan.root("b"), plan.root("a"));  // no other node reads `a`
  EXPECT_EQ(plan.root("view"), plan.root("b"));
  EXPECT_NE(plan.root("used_twice"), plan.root("view"));  // b is fetched
  EXPECT_NE(plan.root("c"), plan.root("used_twice"));     // `d` reads used_twice later
  EXPECT_EQ(plan.state->storage.of(plan.output("sizes")), -1);
}

TEST(AssignStorageTest, AllReduceOperandsAreAdjacentAndComputedInPlace) {
  StepPlan plan(R"(
x = Placeholder() {dtype=float, shape=<4>}
a = Neg(x) {T=float}
b = Neg(x) {T=float}
r = AllReduce(a, b, x) {N=3, T=float}
)",
                {.feeds = {{"x", {4}}}, .fetches = {"r"}}, {"r"});
  ASSERT_TRUE(Assign(plan));
  const StorageTable& table = plan.state->storage;
  const StorageTable::Slots& slots = table.slots.at(plan.output("r").node->id());
  const int aligned = static_cast<int>(kBufferAlignment);
  EXPECT_EQ(slots.count, 2 * aligned / 4 + 4);
  EXPECT_EQ(std::vector<char>({false, false, true}), slots.needs_copy);  // x is fed
  EXPECT_EQ(table.of(plan.output("a")), slots.storages[0]);
  EXPECT_EQ(table.of(plan.output("b")), slots.storages[1]);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(table.all[slots.storages[i]].offset, aligned * i);
    EXPECT_EQ(table.Root(slots.storages[i]), table.Root(slots.storages[0]));
  }
}

// Returns the plan's instructions, except those for events.
std::string Instructions(const Plan& plan) {
  std::vector<std::string> all;
  for (const Instruction& i : plan.instructions) {
    if (i.kind == InstructionKind::kRecord || i.kind == InstructionKind::kWait) continue;
    const char* what = i.kind == InstructionKind::kStart    ? "start "
                       : i.kind == InstructionKind::kFinish ? "finish "
                       : i.kind == InstructionKind::kCopy   ? "copy "
                                                            : "";
    all.push_back(what + plan.node_names[i.node]);
  }
  return absl::StrJoin(all, ", ");
}

TEST(EmitInstructionsTest, CollectiveIsFinishedBeforeFirstUseOfResult) {
  StepPlan plan(kBackward, {.feeds = {{"x", {2}}}, .targets = {"u1", "u2", "u3"}},
                {"r3", "r2", "r1"});
  ASSERT_TRUE(Assign(plan) && plan.Run(EmitInstructions()));
  // `g3` and `g2` have other users, so the collectives' operands are copies of them.
  EXPECT_EQ(Instructions(*plan.state->plan),
            "g3, copy r3, start r3, g2, copy r2, start r2, finish r3, u3, g1, start r1, finish r2, "
            "u2, finish r1, u1");
}

// No other node waits for the update. By the end of the next product, the other ranks have probably
// started their updates.
TEST(EmitInstructionsTest, UpdateIsFinishedBeforeSecondProductAfterIt) {
  StepPlan plan(R"(
v = VarHandleOp() {dtype=float, shape=<4>}
rate = Const() {dtype=float, value=float<>{0.5}}
gradient = Placeholder() {dtype=float, shape=<4>}
u = ResourceApplyGradientDescent(v, rate, gradient) {T=float, _reduction="sum"}
x = Placeholder() {dtype=float, shape=<4,4>}
a = MatMul(x, x) {T=float}
b = MatMul(a, x) {T=float}
c = MatMul(b, x) {T=float}
)",
                {.feeds = {{"gradient", {4}}, {"x", {4, 4}}}, .fetches = {"c"}, .targets = {"u"}},
                {"u"});
  ASSERT_TRUE(Assign(plan) && plan.Run(EmitInstructions()));
  EXPECT_EQ(Instructions(*plan.state->plan), "start u, a, finish u, b, c");
}

// The check of `x` can fail, so every rank must arrive at the barrier before any rank writes.
TEST(EmitInstructionsTest, BarrierIsFinishedBeforeWritesThatItGuards) {
  StepPlan plan(R"(
v = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
write = AssignVariableOp(v, x) {dtype=float}
check = CheckNumerics(x) {T=float, message="x"}
)",
                CheckedNames());
  ASSERT_TRUE(plan.Run(InferLocalShapes(), ChooseKernels(), GuardWrites(), ScheduleNodes(),
                       AssignStorage(), EmitInstructions()));
  const Plan& made = *plan.state->plan;
  EXPECT_EQ(Instructions(made), "check, start before_writes, finish before_writes, write");
  ASSERT_EQ(made.collectives.size(), 1);
  EXPECT_TRUE(made.collectives[0].is<Barrier>());
  EXPECT_EQ(made.collectives[0].name, "before_writes");
}

TEST(PlanMemoryTest, ValuesWithDisjointLifetimesShareArena) {
  StepPlan plan(R"(
x = Placeholder() {dtype=float, shape=<64>}
two = Const() {dtype=float, value=float<1>{2}}
a = Mul(x, two) {T=float}
b = Softmax(a) {T=float}
c = Softmax(b) {T=float}
d = Softmax(c) {T=float}
)",
                {.feeds = {{"x", {64}}}, .fetches = {"d"}});
  ASSERT_TRUE(Assign(plan) && plan.Run(EmitInstructions(), PlanMemory()));
  const Plan& made = *plan.state->plan;
  constexpr int64_t kBytes = 256;
  EXPECT_LE(made.arena_bytes, 2 * kBytes);
  EXPECT_GE(made.arena_bytes, made.live_bytes);
  EXPECT_TRUE(CheckPlan::Check(made).ok()) << CheckPlan::Check(made);
  ASSERT_EQ(made.operands.size(), 3 + 2 + 2 + 2);
  EXPECT_EQ(made.operands[0].region, Plan::kFirstFeedRegion);
  EXPECT_EQ(made.operands[1].region, Plan::kConstantsRegion);
  EXPECT_EQ(reinterpret_cast<const float*>(made.constants->data())[0], 2);
  for (const size_t i : {2, 3, 4, 5, 6, 7, 8}) {
    EXPECT_EQ(made.operands[i].region, Plan::kArenaRegion) << i;
    EXPECT_LE(made.operands[i].offset + kBytes, made.arena_bytes) << i;
  }
  EXPECT_EQ(made.operands[2].offset, made.operands[3].offset);  // a
  EXPECT_EQ(made.fetches[0].operand.offset, made.operands[8].offset);
}

TEST(OrderThreadsTest, OneThreadRunsAllInstructionsWithoutWaits) {
  StepPlan plan("x = Placeholder() {dtype=float, shape=<4>}\na = Neg(x) {T=float}\n",
                {.feeds = {{"x", {4}}}, .fetches = {"a"}});
  ASSERT_TRUE(Assign(plan) && plan.Run(EmitInstructions(), PlanMemory(), OrderThreads()));
  const Plan& made = *plan.state->plan;
  EXPECT_EQ(made.num_threads, 1);
  EXPECT_TRUE(made.waits.empty());
  EXPECT_EQ(made.dispatch.instructions.size(), made.instructions.size());
}

TEST(PlanMemoryTest, ValuesTooLargeForAnyMachineAreRejected) {
  StepPlan plan("x = Placeholder() {dtype=float, shape=<1>}\ny = Neg(x) {T=float}\n",
                {.feeds = {{"x", {1}}}, .fetches = {"y"}});
  ASSERT_TRUE(Assign(plan) && plan.Run(EmitInstructions()));
  for (Storage& storage : plan.state->storage.all) storage.bytes = int64_t{1} << 62;
  EXPECT_THAT(RunPasses(*plan.state, PlanMemory()),
              IsError(absl::StatusCode::kResourceExhausted, "this step", "bytes"));
}

TEST(PlanStagesTest, PlanIsCheckedOnlyIfOptionIsSet) {
  StepPlan plan("x = Placeholder() {dtype=float, shape=<1>}\ny = Neg(x) {T=float}\n",
                {.feeds = {{"x", {1}}}, .fetches = {"y"}});
  ASSERT_TRUE(Assign(plan) && plan.Run(EmitInstructions(), PlanMemory()));
  plan.state->plan->accesses[0].clear();  // now no instruction writes the fetched value
  EXPECT_TRUE(RunPasses(*plan.state, CheckPlan()).ok());
  plan.state->options.check_plan = true;
  EXPECT_THAT(RunPasses(*plan.state, CheckPlan()),
              IsError(absl::StatusCode::kInternal, "check plan", "fetch 0"));
}

}  // namespace
}  // namespace mirrorflow
