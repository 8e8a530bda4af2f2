// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/split_into_microbatches.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/compiler/plan/assign_storage.h"
#include "framework/compiler/plan/check_plan.h"
#include "framework/compiler/plan/choose_kernels.h"
#include "framework/compiler/plan/emit_instructions.h"
#include "framework/compiler/plan/infer_local_shapes.h"
#include "framework/compiler/plan/plan_memory.h"
#include "framework/compiler/plan/schedule_nodes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/compilation.h"

namespace mirrorflow {
namespace {

// A step with batch size `rows`. The values in `with_rows` are sharded like the feed `x`.
struct SplitStep {
  SplitStep(absl::string_view text, const StepNames& names,
            const std::vector<std::string>& with_rows, int64_t rows) {
    auto parsed = ParseStep(text, names);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (!parsed.ok()) return;
    step = *std::move(parsed);
    Compilation& c = step->c;
    c.axes = {{.size = rows}};
    c.shardings.Set(c.graph.FindNode("x")->output(0), Sharded{.axis = 0, .dim = 0, .factor = 1});
    for (const std::string& name : with_rows) {
      c.shardings.Set(c.graph.FindNode(name)->output(0), Sharded{.axis = 0, .dim = 0, .factor = 1});
    }
    state = std::make_unique<PlanState>(c, std::vector<int64_t>{rows}, DeviceTraits(), nullptr);
  }

  template <typename... P>
  void Run(P... stages) {
    const absl::Status status = RunPasses(*state, std::move(stages)...);
    EXPECT_TRUE(status.ok()) << status;
  }

  // Splits the step. Returns the names of the other nodes, except sources, in order, with their
  // numbers of rows: `y/rows_from_0[2]`.
  std::string Split(int64_t microbatch_bytes) {
    if (state == nullptr) return "";
    state->options.microbatch_bytes = microbatch_bytes;
    Run(InferLocalShapes(), SplitIntoMicrobatches());
    const auto order = TopologicalOrder(state->graph);
    EXPECT_TRUE(order.ok()) << order.status();
    std::string text;
    for (const Node* node : *order) {
      if (node->num_inputs() == 0) continue;
      absl::StrAppend(&text, text.empty() ? "" : " ", node->name());
      if (node->num_outputs() == 0) continue;
      absl::StrAppend(&text, "[", state->local_shape(node->output(0)).dim(0), "]");
    }
    return text;
  }

  std::unique_ptr<TestCompilation> step;
  std::unique_ptr<PlanState> state;
};

// Each node reads and writes 32 bytes for each row.
constexpr char kChain[] = R"(
x = Placeholder() {dtype=float, shape=<?,4>}
a = Tanh(x) {T=float}
b = Neg(a) {T=float}
)";

std::string SplitChain(int64_t rows, int64_t microbatch_bytes) {
  return SplitStep(kChain, {.feeds = {{"x", {rows, 4}}}, .fetches = {"b"}}, {"a", "b"}, rows)
      .Split(microbatch_bytes);
}

TEST(SplitIntoMicrobatchesTest, MicrobatchRunsAllNodesOfSection) {
  EXPECT_EQ(SplitChain(10, 70),
            "x/rows_from_0[2] a/rows_from_0[2] b/rows_from_0[2] "
            "x/rows_from_2[2] a/rows_from_2[2] b/rows_from_2[2] "
            "x/rows_from_4[2] a/rows_from_4[2] b/rows_from_4[2] "
            "x/rows_from_6[2] a/rows_from_6[2] b/rows_from_6[2] "
            "x/rows_from_8[2] a/rows_from_8[2] b/rows_from_8[2] b/rows[10]");
}

TEST(SplitIntoMicrobatchesTest, PrefersEqualMicrobatches) {
  // At most three rows fit. 14 is divisible by 2. 13 is prime, so the last micro-batch is smaller.
  EXPECT_THAT(SplitChain(14, 100), testing::HasSubstr("b/rows_from_12[2]"));
  EXPECT_THAT(SplitChain(13, 100), testing::HasSubstr("b/rows_from_9[3] x/rows_from_12[1]"));
}

TEST(SplitIntoMicrobatchesTest, RowLargerThanMicrobatchIsMicrobatchOfItsOwn) {
  EXPECT_THAT(SplitChain(2, 10), testing::StartsWith("x/rows_from_0[1] a/rows_from_0[1]"));
}

TEST(SplitIntoMicrobatchesTest, NumberOfMicrobatchesIsLimited) {
  // Micro-batches of 3 rows would divide 195 evenly, but there would be 65 of them; the limit
  // is 64.
  EXPECT_THAT(SplitChain(195, 1), testing::StartsWith("x/rows_from_0[4] "));
  EXPECT_THAT(SplitChain(6400, 1), testing::StartsWith("x/rows_from_0[100] "));
}

TEST(SplitIntoMicrobatchesTest, FewMicrobatchesOrOneRowAreNotSplit) {
  EXPECT_EQ(SplitChain(8, 64), "a[8] b[8]");  // four micro-batches stay in the cache
  EXPECT_EQ(SplitChain(1, 1), "a[1] b[1]");
  EXPECT_EQ(SplitChain(0, 1), "a[0] b[0]");
  EXPECT_EQ(SplitChain(10, 0), "a[10] b[10]");  // off
}

// `c` needs the sum over all rows of `b`.
TEST(SplitIntoMicrobatchesTest, SectionEndsWhereRowsAreReduced) {
  SplitStep step(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
zero = Const() {dtype=int32, value=int32<1>{0}}
a = Tanh(x) {T=float}
b = Neg(a) {T=float}
sum = Sum(b, zero) {T=float, keep_dims=true}
c = Sub(b, sum) {T=float}
d = Exp(c) {T=float}
)",
                 {.feeds = {{"x", {10, 4}}}, .fetches = {"d"}}, {"a", "b", "c", "d"}, 10);
  EXPECT_THAT(step.Split(64), testing::EndsWith("b/rows[10] sum[1] c[10] d[10]"));
}

// Reading the weights of `y` in each of the five micro-batches would cost as much as the split
// saves.
TEST(SplitIntoMicrobatchesTest, NodeWithLargeWeightsIsNotSplit) {
  SplitStep step(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
w = Placeholder() {dtype=float, shape=<4,4>}
a = Tanh(x) {T=float}
b = Neg(a) {T=float}
y = MatMul(b, w) {T=float}
)",
                 {.feeds = {{"x", {10, 4}}, {"w", {4, 4}}}, .fetches = {"y"}}, {"a", "b", "y"}, 10);
  EXPECT_THAT(step.Split(64), testing::EndsWith("b/rows[10] y[10]"));
}

TEST(SplitIntoMicrobatchesTest, NodeWithControlEdgeIsNotSplit) {
  SplitStep step(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
v = Placeholder() {dtype=float, shape=<4>}
a = Tanh(x) {T=float}
b = Neg(a) {T=float}
c = Exp(b) {T=float}
later = Neg(v, ^b) {T=float}
)",
                 {.feeds = {{"x", {10, 4}}, {"v", {4}}}, .fetches = {"c", "later"}},
                 {"a", "b", "c"}, 10);
  EXPECT_THAT(step.Split(32), testing::Not(testing::HasSubstr("rows_from")));
}

// With training statistics of each replica, a row of `y` depends on all rows of the replica.
TEST(SplitIntoMicrobatchesTest, NodeWithResultThatDiffersBetweenReplicasIsNotSplit) {
  SplitStep step(R"(
x = Placeholder() {dtype=float, shape=<?,2,2,4>}
v = Const() {dtype=float, value=float<4>{1, 1, 1, 1}}
a = Tanh(x) {T=float}
y = FusedBatchNormV3(a, v, v, v, v) {T=float, U=float}
b = Neg(y) {T=float}
)",
                 {.feeds = {{"x", {10, 2, 2, 4}}}, .fetches = {"b"}}, {"a", "y", "b"}, 10);
  if (step.state == nullptr) return;
  const Node* const y = step.state->graph.FindNode("y");
  for (int i = 3; i < y->num_outputs(); ++i) step.state->shardings.Set(y->output(i), PerReplica());
  EXPECT_EQ(step.Split(128), "a[10] y[10] b[10]");
}

TEST(SplitIntoMicrobatchesTest, StepThatWritesIsNotSplit) {
  SplitStep step(absl::StrCat(kChain, R"(
v = VarHandleOp() {dtype=float, shape=<2>}
value = Const() {dtype=float, value=float<2>{1, 2}}
write = AssignVariableOp(v, value) {dtype=float}
)"),
                 {.feeds = {{"x", {10, 4}}}, .fetches = {"b"}, .targets = {"write"}}, {"a", "b"},
                 10);
  EXPECT_EQ(step.Split(32), "a[10] b[10] write");
}

// Compiles the step to a plan, and returns the size of the arena. No instruction copies rows.
int64_t ArenaOf(SplitStep step) {
  if (step.state == nullptr) return 0;
  EXPECT_THAT(step.Split(64), testing::HasSubstr("/rows_from_"));
  step.Run(ChooseKernels(), ScheduleNodes(), AssignStorage(), EmitInstructions(), PlanMemory(),
           CheckPlan());
  const absl::Status status = CheckPlan::Check(*step.state->plan);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(absl::c_all_of(step.state->plan->instructions, [](const Instruction& instruction) {
    return instruction.kind == InstructionKind::kKernel;
  }));
  return step.state->plan->arena_bytes;
}

// The arena holds all rows of `b`, and two rows of `a`, aligned to 64 bytes.
TEST(SplitIntoMicrobatchesTest, NodesReadAndWriteRowsInPlace) {
  EXPECT_EQ(
      ArenaOf(SplitStep(kChain, {.feeds = {{"x", {100, 4}}}, .fetches = {"b"}}, {"a", "b"}, 100)),
      1600 + 64);
}

// The arena holds all rows of `b` and `c`, and two rows of `a`.
TEST(SplitIntoMicrobatchesTest, ResultThatSectionAlsoReadsIsWrittenInPlace) {
  EXPECT_EQ(
      ArenaOf(SplitStep(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
a = Tanh(x) {T=float}
b = Neg(a) {T=float}
c = Mul(a, b) {T=float}
)",
                        {.feeds = {{"x", {100, 4}}}, .fetches = {"b", "c"}}, {"a", "b", "c"}, 100)),
      2 * 1600 + 64);
}

// The arena holds all rows of `b`, which `view` shares, and of `d`, and two rows of `a` or `c`.
TEST(SplitIntoMicrobatchesTest, ViewThatLeavesSectionReadsJoinedRows) {
  EXPECT_EQ(ArenaOf(SplitStep(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
sizes = Const() {dtype=int32, value=int32<3>{-1, 2, 2}}
a = Tanh(x) {T=float}
b = Neg(a) {T=float}
view = Reshape(b, sizes) {T=float}
c = Exp(view) {T=float}
d = Neg(c) {T=float}
)",
                              {.feeds = {{"x", {100, 4}}}, .fetches = {"view", "d"}},
                              {"a", "b", "view", "c", "d"}, 100)),
            2 * 1600 + 64);
}

// A feed has no producer that could write its rows into another storage.
TEST(SplitIntoMicrobatchesTest, ViewOfFeedIsNotJoined) {
  EXPECT_EQ(ArenaOf(SplitStep(R"(
x = Placeholder() {dtype=float, shape=<?,4>}
sizes = Const() {dtype=int32, value=int32<3>{-1, 2, 2}}
a = Tanh(x) {T=float}
view = Reshape(x, sizes) {T=float}
b = Neg(a) {T=float}
)",
                              {.feeds = {{"x", {100, 4}}}, .fetches = {"b", "view"}},
                              {"a", "view", "b"}, 100)),
            1600 + 64);
}

// Nothing uses the statistics, which all rows share.
TEST(SplitIntoMicrobatchesTest, UnusedResultNeedNotHaveRows) {
  SplitStep step(R"(
x = Placeholder() {dtype=float, shape=<?,2,2,4>}
v = Const() {dtype=float, value=float<4>{1, 1, 1, 1}}
a = Tanh(x) {T=float}
y = FusedBatchNormV3(a, v, v, v, v) {T=float, U=float, is_training=false}
b = Neg(y) {T=float}
)",
                 {.feeds = {{"x", {10, 2, 2, 4}}}, .fetches = {"b"}}, {"a", "y", "b"}, 10);
  EXPECT_THAT(step.Split(128), testing::EndsWith("y/rows_from_9[1] b/rows_from_9[1] b/rows[10]"));
}

}  // namespace
}  // namespace mirrorflow
