// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/schedule_nodes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distribute/passes/order_collectives.h"
#include "gtest/gtest.h"
#include "tests/support/compilation.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

std::string Names(const std::vector<Node*>& nodes) {
  return absl::StrJoin(nodes, " ", [](std::string* out, const Node* n) { out->append(n->name()); });
}

// Returns the nodes' names in schedule order. Neg is the only op with an expensive kernel.
std::string Schedule(const Compilation& c) {
  PlanState s(c, {}, DeviceTraits(), nullptr);
  s.kernel_plans.resize(s.graph.id_limit());
  for (const Node* node : s.graph.Nodes()) {
    s.kernel_plans[node->id()].flops = node->op().name == "Neg" ? 1 : 0;
  }
  const absl::Status status = RunPasses(s, ScheduleNodes());
  return status.ok() ? Names(s.order) : status.ToString();
}

std::string Schedule(absl::string_view text, const StepNames& names) {
  const auto step = ParseStep(text, names);
  if (!step.ok()) return step.status().ToString();
  const absl::Status status = RunPasses((*step)->c, OrderCollectives());
  return status.ok() ? Schedule((*step)->c) : status.ToString();
}

TEST(ScheduleNodesTest, StartsCollectiveWhenReadyAndUsesItWhenNextIsInFlight) {
  EXPECT_EQ(Schedule(kBackward, {.feeds = {{"x", {2}}}, .targets = {"u1", "u2", "u3"}}),
            "v1 v2 v3 x g3 r3 g2 r2 u3 g1 r1 u2 u1");
}

// The schedule must not depend on ids, because nodes that passes add have high ids.
TEST(ScheduleNodesTest, RunsOperandsOfNextCollectiveFirst) {
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

// Without this rule, the whole backward pass would run first, because the loss's all-reduce can be
// in flight at the same time.
TEST(ScheduleNodesTest, UsesCollectiveBetweenLongKernelsIfNextCollectiveNeedsIt) {
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

TEST(ScheduleNodesTest, KeepsOrderOfCollectivesEvenIfLaterOneIsReadyFirst) {
  const auto step = ParseStep(kBackward, {.feeds = {{"x", {2}}}, .targets = {"u1", "u2", "u3"}});
  ASSERT_TRUE(step.ok()) << step.status();
  Compilation& c = (*step)->c;
  for (const char* name : {"r1", "r3", "r2"}) c.collectives.push_back(c.graph.FindNode(name));
  EXPECT_EQ(Schedule(c), "v1 v2 v3 x g3 g2 g1 r1 r3 r2 u1 u3 u2");
}

}  // namespace
}  // namespace mirrorflow
