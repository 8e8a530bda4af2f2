// SPDX-License-Identifier: Apache-2.0
#include "framework/compiler/plan/plan_memory.h"

#include "framework/core/buffer.h"
#include "framework/session/step_plans.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

constexpr int64_t kAlignment = static_cast<int64_t>(kBufferAlignment);

// Returns how many bytes a value occupies: its size, rounded up to keep offsets aligned.
int64_t Padded(const Lifetime& v) { return static_cast<int64_t>(AlignUp(v.bytes)); }

std::vector<Lifetime> RandomLifetimes(Random& random, int count, int steps) {
  std::vector<Lifetime> values;
  for (int i = 0; i < count; ++i) {
    const int first = static_cast<int>(random.Below(steps));
    // Most values are short-lived, and some are long-lived.
    const int64_t span = random.Below(random.Below(5) == 0 ? steps : 4);
    const int last = std::min<int>(steps - 1, first + static_cast<int>(span));
    const int64_t bytes = random.Below(10) == 0 ? 0 : 1 + random.Below(1 << (4 + i % 10));
    values.push_back({first, last, bytes});
  }
  return values;
}

// Returns the peak number of live bytes, counted step by step.
int64_t BruteForceLive(const std::vector<Lifetime>& values, int steps) {
  int64_t most = 0;
  for (int step = 0; step < steps; ++step) {
    int64_t live = 0;
    for (const Lifetime& v : values) live += v.first <= step && step <= v.last ? Padded(v) : 0;
    most = std::max(most, live);
  }
  return most;
}

// Returns a description of two values that are live at the same time and share a byte, or "" if
// there are none.
std::string Overlap(const std::vector<Lifetime>& values, const MemoryPlan& plan) {
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool together = values[i].first <= values[j].last && values[j].first <= values[i].last;
      const bool share = plan.offsets[i] < plan.offsets[j] + values[j].bytes &&
                         plan.offsets[j] < plan.offsets[i] + values[i].bytes;
      const bool empty = values[i].bytes == 0 || values[j].bytes == 0;
      if (together && share && !empty)
        return "values " + std::to_string(j) + " and " + std::to_string(i);
    }
  }
  return "";
}

void ExpectValid(const std::vector<Lifetime>& values, int steps) {
  const MemoryPlan plan = PackValues(values);
  ASSERT_EQ(plan.offsets.size(), values.size());
  EXPECT_EQ(Overlap(values, plan), "");
  EXPECT_EQ(plan.live_bytes, BruteForceLive(values, steps));
  int64_t peak = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_EQ(plan.offsets[i] % kAlignment, 0);
    peak = std::max(peak, plan.offsets[i] + Padded(values[i]));
  }
  EXPECT_EQ(plan.peak_bytes, peak);
  EXPECT_GE(plan.peak_bytes, plan.live_bytes);
}

TEST(PackValuesTest, KeepsSimultaneouslyLiveValuesApart) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    const int steps = static_cast<int>(1 + random.Below(60));
    const std::vector<Lifetime> values =
        RandomLifetimes(random, static_cast<int>(random.Below(80)), steps);
    ASSERT_NO_FATAL_FAILURE(ExpectValid(values, steps)) << "seed " << seed;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(PackValuesTest, KeepsLiveValuesApartEvenIfTooManyForQuadraticHeuristic) {
  Random random(5);
  ExpectValid(RandomLifetimes(random, 6000, 4000), 4000);
}

TEST(PackValuesTest, PeakIsCloseToLiveBytes) {
  double worst = 1, sum = 0;
  constexpr int kPlans = 200;
  for (uint64_t seed = 1; seed <= kPlans; ++seed) {
    Random random(seed);
    const MemoryPlan plan = PackValues(RandomLifetimes(random, 60, 40));
    const double ratio = static_cast<double>(plan.peak_bytes) / plan.live_bytes;
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  EXPECT_LE(sum / kPlans, 1.02);
  EXPECT_LE(worst, 1.2);
}

TEST(PackValuesTest, PeakOfChainEqualsLiveBytes) {
  std::vector<Lifetime> values;
  for (int i = 0; i < 50; ++i) values.push_back({i, i + 1, 1000});
  const MemoryPlan plan = PackValues(values);
  EXPECT_EQ(plan.peak_bytes, 2 * 1024);
  EXPECT_EQ(plan.live_bytes, 2 * 1024);
}

TEST(PackValuesTest, NoValuesNeedNoMemory) {
  const MemoryPlan plan = PackValues({});
  EXPECT_EQ(plan.peak_bytes, 0);
  EXPECT_EQ(plan.live_bytes, 0);
}

// Returns the plan of a step that feeds x, of shape [4, 256], and fetches `build(x)`, on one
// replica.
absl::StatusOr<std::shared_ptr<const Plan>> PlanOf(Output (*build)(const Scope&, Output)) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 256});
  const Output y = build(root, x);
  TestSessionOptions options;
  options.session.compile.disabled_passes = {"fuse_elementwise"};
  MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(graph, options));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x}, {y}));
  MF_ASSIGN_OR_RETURN(const StepPlans plans, CompileStep(step, {Shape({4, 256})}));
  return plans.plans[0];
}

constexpr int64_t kValueBytes = 4 * 256 * 4;

TEST(PlanTest, WritesElementwiseResultsOverDeadInputs) {
  // The feed is outside the arena and must not be overwritten. All results share one buffer.
  const auto plan = PlanOf([](const Scope& s, Output x) {
    return ops::Tanh(s, ops::Exp(s, ops::Neg(s, ops::Sin(s, ops::Neg(s, x)))));
  });
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ((*plan)->num_arena_values, 1);
  EXPECT_LE((*plan)->arena_bytes, kValueBytes);
}

TEST(PlanTest, KeepsInputsWithLaterReads) {
  const auto plan = PlanOf([](const Scope& s, Output x) {
    const Output a = ops::Sin(s, x);
    return ops::MatMul(s, ops::Exp(s, a), a, {.transpose_b = true});
  });
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GE((*plan)->arena_bytes, 2 * kValueBytes);
}

TEST(PlanTest, ArenaOfTrainingStepsIsCloseToLiveBytes) {
  int64_t arena = 0, live = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const auto program = MakeRandomProgram(seed, {.num_ops = 15, .max_batch = 200});
    ASSERT_TRUE(program.ok()) << program.status();
    const auto session = CreateTestSession(program->graph, {.replicas = 2});
    ASSERT_TRUE(session.ok()) << session.status();
    auto step = (*session)->Prepare(program->feeds, program->fetches, program->targets);
    ASSERT_TRUE(step.ok()) << step.status();
    std::vector<Shape> shapes;
    for (const Tensor& value : program->values) shapes.push_back(value.shape());
    const auto plans = CompileStep(*step, shapes);
    ASSERT_TRUE(plans.ok()) << plans.status();
    arena += plans->plans[0]->arena_bytes;
    live += plans->plans[0]->live_bytes;
  }
  EXPECT_LE(static_cast<double>(arena), 1.02 * static_cast<double>(live));
}

}  // namespace
}  // namespace mirrorflow
