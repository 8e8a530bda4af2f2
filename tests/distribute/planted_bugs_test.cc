// SPDX-License-Identifier: Apache-2.0
//
// Tests that the checks can fail: plants what they are there to find.
#include "distribute/pipeline.h"
#include "framework/compiler/check_plan.h"
#include "framework/core/status.h"
#include "framework/reference/interpreter.h"
#include "gtest/gtest.h"
#include "ops/ops.h"
#include "tests/support/random_graph.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/optimizer.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

TEST(PipelineTest, PassesRunInThisOrder) {
  EXPECT_EQ(ProgramPipeline().ToString(),
            "understand: prune, infer\n"
            "simplify: cse\n"
            "shard: shard, insert_collectives\n"
            "communicate: bucket, order_variables, order\n");
}

// What CheckPlan looks at, out of the plan of a training step with several collectives, which
// passes.
absl::StatusOr<Plan> TrainingPlan() {
  StepPlans plans;
  std::vector<std::unique_ptr<Session>> sessions;  // plans outlive neither layout nor graph
  for (uint64_t seed = 1; plans.plans.empty() || plans.plans[0]->collectives.size() < 4; ++seed) {
    MF_ASSIGN_OR_RETURN(RandomProgram program, MakeRandomProgram(seed, {.num_ops = 10}));
    TestSessionOptions options{.replicas = 2};
    options.session.bucket_bytes = 64;
    MF_ASSIGN_OR_RETURN(auto session, CreateTestSession(program.graph, options));
    MF_ASSIGN_OR_RETURN(Step step,
                        session->Prepare(program.feeds, program.fetches, program.targets));
    std::vector<Shape> shapes;
    for (const Tensor& value : program.values) shapes.push_back(value.shape());
    MF_ASSIGN_OR_RETURN(plans, step.Compile(shapes));
    sessions.push_back(std::move(session));
  }
  const Plan& from = *plans.plans[0];
  Plan plan;
  plan.instructions = from.instructions;
  plan.accesses = from.accesses;
  plan.collectives = from.collectives;
  plan.fetches = from.fetches;
  plan.node_names = from.node_names;
  plan.node_ops = from.node_ops;
  plan.num_events = from.num_events;
  return plan;
}

void Erase(Plan* plan, size_t i) {
  plan->instructions.erase(plan->instructions.begin() + static_cast<std::ptrdiff_t>(i));
  plan->accesses.erase(plan->accesses.begin() + static_cast<std::ptrdiff_t>(i));
}

TEST(CheckPlanTest, FindsEachWaitThatIsLeftOut) {
  const absl::StatusOr<Plan> good = TrainingPlan();
  ASSERT_TRUE(good.ok()) << good.status();
  ASSERT_TRUE(CheckPlan(*good).ok()) << CheckPlan(*good);
  int waits = 0, found = 0;
  for (size_t i = 0; i < good->instructions.size(); ++i) {
    if (good->instructions[i].kind != InstructionKind::kWait) continue;
    absl::StatusOr<Plan> bad = TrainingPlan();
    Erase(&*bad, i);
    ++waits;
    if (!CheckPlan(*bad).ok()) ++found;
  }
  // A wait may be implied by a later one of the same lanes; most are not.
  EXPECT_GT(waits, 3);
  EXPECT_GT(found, waits / 2);
}

TEST(CheckPlanTest, FindsCollectivesThatAreSwapped) {
  absl::StatusOr<Plan> plan = TrainingPlan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<size_t> starts;
  for (size_t i = 0; i < plan->instructions.size(); ++i) {
    if (plan->instructions[i].kind == InstructionKind::kStart) starts.push_back(i);
  }
  ASSERT_GE(starts.size(), 2u);
  std::swap(plan->instructions[starts[0]].index, plan->instructions[starts[1]].index);
  EXPECT_FALSE(CheckPlan(*plan).ok());
}

TEST(CheckPlanTest, FindsTwoLiveValuesInOnePlace) {
  absl::StatusOr<Plan> plan = TrainingPlan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Everything in the arena at offset 0.
  for (std::vector<MemoryAccess>& accesses : plan->accesses) {
    for (MemoryAccess& access : accesses) {
      if (access.operand.region == Plan::kArenaRegion) access.operand.offset = 0;
    }
  }
  EXPECT_FALSE(CheckPlan(*plan).ok());
}

// Runs a program on a queued device that ignores one of its waits.
bool GivesAnotherResult(const RandomProgram& program, int ignored_wait, uint64_t seed) {
  TestSessionOptions options{.replicas = 2, .queued = true};
  options.collective_timeout = absl::Seconds(10);
  auto good = CreateTestSession(program.graph, options);
  options.queued_device = {.seed = seed, .ignored_wait = ignored_wait};
  auto bad = CreateTestSession(program.graph, options);
  if (!good.ok() || !bad.ok()) return false;
  auto good_step = (*good)->Prepare(program.feeds, program.fetches, program.targets);
  auto bad_step = (*bad)->Prepare(program.feeds, program.fetches, program.targets);
  for (int step = 0; step < 2; ++step) {
    const auto want = good_step->Run(program.values);
    const auto got = bad_step->Run(program.values);
    if (!want.ok()) return false;
    if (!got.ok()) return true;
    for (size_t i = 0; i < want->size(); ++i) {
      if (!Tensor::Identical((*want)[i], (*got)[i])) return true;
    }
    for (const VariableInfo& v : (*good)->layout().variables()) {
      if (!Tensor::Identical(*(*good)->ReadVariable(v.name), *(*bad)->ReadVariable(v.name))) {
        return true;
      }
    }
  }
  return false;
}

TEST(QueuedDeviceTest, AMissingEventShowsInTheResults) {
  int shown = 0;
  for (uint64_t seed = 1; seed <= 12 && shown < 3; ++seed) {
    const absl::StatusOr<RandomProgram> program = MakeRandomProgram(seed, {.num_ops = 10});
    ASSERT_TRUE(program.ok()) << program.status();
    for (int wait = 0; wait < 6 && shown < 3; ++wait) {
      if (GivesAnotherResult(*program, wait, seed)) ++shown;
    }
  }
  EXPECT_GE(shown, 3);
}

// The trap of SHARDING.md section 2: gradient + λ·w with the gradient partial would count λ·w once
// a replica. With a rule that calls the sum multilinear that is what happens, and it shows.
TEST(ShardingTest, WeightDecayOnAPartialGradientShowsInTheResults) {
  for (const bool planted : {false, true}) {
    Graph graph;
    const Scope root(&graph);
    const Output x = ops::Placeholder(root.WithName("x"), DT_DOUBLE, {-1, 2});
    const Variable w = CreateVariable(root, "w", {2, 1}, initializers::Ones(), DT_DOUBLE);
    const Output loss = ops::Sum(root, ops::MatMul(root, x, w.value), {0, 1});
    const auto gradients = Optimizer::ComputeGradients(root, loss, {{w.handle}});
    ASSERT_EQ(gradients.size(), 1u) << graph.status();
    const Output decayed = ops::AddV2(root, gradients[0].gradient, w.value);
    const Operation update = ops::AssignSubVariableOp(root, w.handle, decayed);
    OpDef wrong = decayed.node->op();
    if (planted) {
      wrong.sharding = [](const ShardContext&) -> absl::StatusOr<ShardingRule> {
        return ShardingRule{.dims = "ab,ab->ab", .linearity = Linearity::kMulti};
      };
      Node* node = *graph.AddNode("wrong", wrong, decayed.node->attrs(),
                                  {decayed.node->input(0), decayed.node->input(1)});
      ASSERT_TRUE(graph.values().Infer(*node).ok());
      graph.ReplaceUses(decayed, node->output(0));
    }
    auto session = CreateTestSession(graph, {.replicas = 2});
    ASSERT_TRUE(session.ok()) << session.status();
    auto step = (*session)->Prepare({x}, {}, {update});
    ASSERT_TRUE(step.ok()) << step.status();
    const Tensor rows = Tensor::Of<double>({2, 2}, {1, 2, 3, 4});
    ASSERT_TRUE(step->Run({rows}).ok());
    // gradient [4, 6] + w [1, 1]
    const Tensor want = Tensor::Of<double>({2, 1}, {1 - 5, 1 - 7});
    const bool right = Difference(want, *(*session)->ReadVariable("w"), {}).empty();
    EXPECT_EQ(right, !planted);
  }
}

}  // namespace
}  // namespace mirrorflow
