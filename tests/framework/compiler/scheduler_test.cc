// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/scheduler.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/passes/order_collectives.h"
#include "framework/compiler/compile_plan.h"
#include "gtest/gtest.h"
#include "tests/support/compilation.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

bool IsLong(const Node& node) { return node.op().name == "Neg"; }

// The names in the order of the schedule; `failing` can fail on data.
std::string Schedule(absl::string_view text, const StepNames& names,
                     const std::vector<std::string>& failing = {}) {
  const auto step = ParseStep(text, names);
  if (!step.ok()) return step.status().ToString();
  Compilation& c = (*step)->c;
  const absl::Status status = RunPasses(c, OrderCollectives());
  if (!status.ok()) return status.ToString();
  std::vector<Node*> nodes;
  for (const std::string& name : failing) nodes.push_back(c.graph.FindNode(name));
  const auto order = ScheduleNodes(c, nodes, IsLong);
  if (!order.ok()) return order.status().ToString();
  return absl::StrJoin(*order, " ",
                       [](std::string* out, const Node* n) { out->append(n->name()); });
}

// Three layers' gradients, the last layer's first; a collective and an update each.
constexpr char kBackward[] = R"(
v1 = VarHandleOp() {dtype=float, shape=<2>}
v2 = VarHandleOp() {dtype=float, shape=<2>}
v3 = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
g3 = Neg(x) {T=float}
g2 = Neg(g3) {T=float}
g1 = Neg(g2) {T=float}
r3 = AllReduce(g3) {N=1, T=float}
r2 = AllReduce(g2) {N=1, T=float}
r1 = AllReduce(g1) {N=1, T=float}
u1 = AssignSubVariableOp(v1, r1) {dtype=float}
u2 = AssignSubVariableOp(v2, r2) {dtype=float}
u3 = AssignSubVariableOp(v3, r3) {dtype=float}
)";

TEST(ScheduleNodesTest, StartsACollectiveWhenItsOperandsAreReadyAndUsesItWhenALaterOneIsInFlight) {
  EXPECT_EQ(Schedule(kBackward, {.feeds = {{"x", {2}}}, .targets = {"u1", "u2", "u3"}}),
            "v1 v2 v3 x g3 r3 g2 r2 u3 g1 r1 u2 u1");
}

// Whatever the ids are: passes give high ones to what they add.
TEST(ScheduleNodesTest, RunsFirstWhatTheNextCollectiveWaitsFor) {
  constexpr char kText[] = R"(
v = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
other = Neg(x) {T=float}
g = Neg(x) {T=float}
sum = Sign(x) {T=float}
loss = AllReduce(sum) {N=1, T=float}
r = AllReduce(g) {N=1, T=float}
u = AssignSubVariableOp(v, r) {dtype=float}
)";
  EXPECT_EQ(
      Schedule(kText, {.feeds = {{"x", {2}}}, .fetches = {"other", "loss"}, .targets = {"u"}}),
      "v x sum loss g r other u");
}

// Else all of the backward pass would run first, as the loss could be in flight beside it.
TEST(ScheduleNodesTest, UsesACollectiveBetweenLongKernelsWhereTheNextCollectiveWaitsForIt) {
  constexpr char kText[] = R"(
v1 = VarHandleOp() {dtype=float, shape=<2>}
v2 = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
loss = AllReduce(x) {N=1, T=float}
sign = Sign(x) {T=float}
g2 = Neg(sign) {T=float}
short = Sign(g2) {T=float}
g1 = Neg(short) {T=float}
gate = Square(loss) {T=float}
gated2 = AddV2(g2, gate) {T=float}
gated1 = AddV2(g1, gate) {T=float}
r2 = AllReduce(gated2) {N=1, T=float}
r1 = AllReduce(gated1) {N=1, T=float}
u1 = AssignSubVariableOp(v1, r1) {dtype=float}
u2 = AssignSubVariableOp(v2, r2) {dtype=float}
)";
  EXPECT_EQ(Schedule(kText, {.feeds = {{"x", {2}}}, .targets = {"u1", "u2"}}),
            "v1 v2 x loss sign g2 gate gated2 r2 short g1 gated1 r1 u2 u1");
}

TEST(ScheduleNodesTest, KeepsTheProgramsOrderOfCollectivesWhenALaterOneIsReadyFirst) {
  const auto step = ParseStep(kBackward, {.feeds = {{"x", {2}}}, .targets = {"u1", "u2", "u3"}});
  ASSERT_TRUE(step.ok()) << step.status();
  Compilation& c = (*step)->c;
  for (const char* name : {"r1", "r3", "r2"}) c.collectives.push_back(c.graph.FindNode(name));
  const auto order = ScheduleNodes(c, {}, IsLong);
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(
      absl::StrJoin(*order, " ", [](std::string* out, const Node* n) { out->append(n->name()); }),
      "v1 v2 v3 x g3 g2 g1 r1 r3 r2 u1 u3 u2");
}

TEST(ScheduleNodesTest, RunsWhatCanFailOnDataBeforeTheFirstCollectiveWhichTheUpdatesThenWaitFor) {
  // By itself r2 starts as soon as g2 is there, and `free` waits for nothing. A rank that has seen
  // the end of r2 knows that the check has passed on every rank.
  constexpr char kText[] = R"(
v2 = VarHandleOp() {dtype=float, shape=<2>}
v = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
free = AssignAddVariableOp(v, x) {dtype=float}
g2 = Neg(x) {T=float}
g1 = Neg(g2) {T=float}
check = Sign(g1) {T=float}
r2 = AllReduce(g2) {N=1, T=float}
u2 = AssignSubVariableOp(v2, r2) {dtype=float}
)";
  const StepNames names = {.feeds = {{"x", {2}}}, .fetches = {"check"}, .targets = {"u2", "free"}};
  EXPECT_EQ(Schedule(kText, names), "v2 v x g2 r2 free g1 check u2");
  EXPECT_EQ(Schedule(kText, names, {"check"}), "v2 v x g2 g1 check r2 free u2");
}

TEST(ScheduleNodesTest, RunsWhatCanFailOnDataBeforeAllWritesWithoutCollectives) {
  EXPECT_EQ(
      Schedule(R"(
v = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
write = AssignVariableOp(v, x) {dtype=float}
slow = Neg(x) {T=float}
check = Sign(slow) {T=float}
)",
               {.feeds = {{"x", {2}}}, .fetches = {"check"}, .targets = {"write"}}, {"check"}),
      "v x slow check write");
}

TEST(ScheduleNodesTest, LeavesAloneAWriteThatTheGraphWantsBeforeWhatCanFail) {
  EXPECT_EQ(
      Schedule(R"(
v = VarHandleOp() {dtype=float, shape=<2>}
x = Placeholder() {dtype=float, shape=<2>}
write = AssignVariableOp(v, x) {dtype=float}
read = ReadVariableOp(v, ^write) {dtype=float}
check = Sign(read) {T=float}
)",
               {.feeds = {{"x", {2}}}, .fetches = {"check"}, .targets = {"write"}}, {"check"}),
      "v x write read check");
}

TEST(CompilePlanTest, FinishesACollectiveWhereItsResultIsFirstUsed) {
  const auto step = ParseStep(kBackward, {.feeds = {{"x", {2}}}, .targets = {"u1", "u2", "u3"}});
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_TRUE(RunPasses((*step)->c, OrderCollectives()).ok());
  const Program program{std::move((*step)->c)};
  const auto plan = CompilePlan(program, {}, DeviceTraits(), TestKernels());
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::string text;
  for (const Instruction& i : (*plan)->instructions) {
    if (i.kind == InstructionKind::kRecord || i.kind == InstructionKind::kWait) continue;
    const char* what = i.kind == InstructionKind::kStart    ? "start "
                       : i.kind == InstructionKind::kFinish ? "finish "
                       : i.kind == InstructionKind::kCopy   ? "copy "
                                                            : "";
    absl::StrAppend(&text, text.empty() ? "" : ", ", what, (*plan)->node_names[i.node]);
  }
  // g3 and g2 have other users, so the collectives' operands are copies of them.
  EXPECT_EQ(text,
            "g3, copy r3, start r3, g2, copy r2, start r2, finish r3, u3, g1, start r1, finish r2, "
            "u2, finish r1, u1");
}

}  // namespace
}  // namespace mirrorflow
