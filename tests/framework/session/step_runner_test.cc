// SPDX-License-Identifier: Apache-2.0
#include "framework/session/step_runner.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "framework/runtime/failure.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/session_parts.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class StepRunnerTest : public testing::Test {
 protected:
  StepRunnerTest() {
    x_ = ops::Placeholder(root_.WithName("x"), DT_FLOAT, {-1});
    y_ = ops::Neg(root_, x_);
    v_ = CreateVariable(root_, "v", {}, initializers::Zeros());
  }

  Graph graph_;
  Scope root_{&graph_};
  Output x_, y_;
  Variable v_;
};

TEST_F(StepRunnerTest, RowsOfAllReplicasAreReturnedInOrder) {
  for (const int replicas : {1, 2, 3}) {
    SessionParts parts(graph_, {.replicas = replicas});
    const auto step = parts.Prepare({x_}, {y_, x_});
    const auto out = SessionParts::Run(*parts.runner, *step, {Tensor::Vector<float>({1, 2, 3, 4})});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_THAT(ValuesOf((*out)[0]), ElementsAre(-1, -2, -3, -4));
    EXPECT_THAT(ValuesOf((*out)[1]), ElementsAre(1, 2, 3, 4));
  }
}

TEST_F(StepRunnerTest, WrongFeedsFail) {
  SessionParts parts(graph_);
  const auto step = parts.Prepare({x_}, {y_});
  EXPECT_THAT(parts.runner->Bind(*step, {}, {}).status(), IsError(kInvalid, "(x)"));
  EXPECT_THAT(parts.runner->Bind(*step, {Tensor::Vector<int32_t>({1})}, {}).status(),
              IsError(kInvalid, "int32"));
}

TEST_F(StepRunnerTest, ReadingUninitialisedVariableFails) {
  SessionParts parts(graph_);
  const auto step = parts.Prepare({}, {v_.value});
  EXPECT_THAT(parts.runner->Bind(*step, {}, {}).status(),
              IsError(absl::StatusCode::kFailedPrecondition, "v"));
  ASSERT_EQ(parts.variables->Assign({{0, Tensor::Scalar<float>(3)}}), absl::OkStatus());
  const auto out = SessionParts::Run(*parts.runner, *step, {});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 3);
}

TEST_F(StepRunnerTest, StepThatWritesInitialisesVariableAndIsCounted) {
  const Operation assign =
      ops::AssignVariableOp(root_, v_.handle, ops::ScalarConst(root_, DT_FLOAT, 5));
  SessionParts parts(graph_);
  const auto write = parts.Prepare({}, {}, {assign}), read = parts.Prepare({}, {v_.value});
  ASSERT_TRUE(SessionParts::Run(*parts.runner, *write, {}).ok());
  const auto out = SessionParts::Run(*parts.runner, *read, {});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 5);
  EXPECT_EQ(parts.log.counters.writing, 1u);
  EXPECT_EQ(parts.log.counters.reading, 1u);
}

// Row 3 belongs to rank 1. When rank 1 fails, the other replicas stop waiting for it.
TEST_F(StepRunnerTest, FailureOfOneReplicaIsReportedAsCause) {
  const Output indices = ops::Placeholder(root_.WithName("indices"), DT_INT32, {-1});
  const Output table = ops::Const(root_, Tensor::Vector<float>({1, 2}));
  const Output rows =
      ops::GatherV2(root_.WithName("lookup"), table, indices, ops::ScalarConst(root_, DT_INT32, 0));
  const Operation assign = ops::AssignAddVariableOp(root_, v_.handle, ops::Sum(root_, rows, {0}));
  SessionParts parts(graph_, {.replicas = 2});
  ASSERT_EQ(parts.variables->Assign({{0, Tensor::Scalar<float>(3)}}), absl::OkStatus());
  const auto step = parts.Prepare({indices}, {}, {assign});
  const absl::Status failure =
      SessionParts::Run(*parts.runner, *step, {Tensor::Vector<int32_t>({0, 1, 0, 7})}).status();
  EXPECT_THAT(failure, IsError(kInvalid, "(lookup)", "7"));
  ASSERT_TRUE(FailureOf(failure).has_value());
  EXPECT_EQ(FailureOf(failure)->rank, 1);
  Tensor value;
  ASSERT_EQ(parts.variables->Read(0, &value), absl::OkStatus());
  EXPECT_EQ(value.scalar<float>(), 3);  // unchanged by the failed step
}

// A runner frees the memory of an evicted step when it binds its next step.
TEST_F(StepRunnerTest, EvictedStepsAreFreed) {
  SessionParts parts(graph_, {.max_steps = 2});
  const auto step = parts.Prepare({x_}, {y_}), other = parts.Prepare({x_}, {y_});
  const auto run = [&](const PreparedStep& of, int64_t rows) {
    const Tensor feed = *Tensor::Allocate(DT_FLOAT, {rows});
    EXPECT_TRUE(SessionParts::Run(*parts.runner, of, {feed}).ok());
    return std::weak_ptr<const Plan>((*parts.runner->Bind(of, {feed}, {}))->compiled->plans[0]);
  };
  const auto one = run(*step, 1), two = run(*step, 2);
  EXPECT_FALSE(one.expired());
  const auto three = run(*step, 3);
  EXPECT_TRUE(one.expired());
  EXPECT_FALSE(two.expired());
  // Another thread compiles a step; the runner still holds its own.
  ASSERT_TRUE(parts.cache->Get({*other, {Shape({9})}, {}, parts.variables->states()}).ok());
  run(*step, 3);
  EXPECT_TRUE(two.expired());
  EXPECT_FALSE(three.expired());
  // Now the runner's own step is evicted.
  for (int64_t rows : {10, 11}) {
    ASSERT_TRUE(parts.cache->Get({*other, {Shape({rows})}, {}, parts.variables->states()}).ok());
  }
  const auto again = run(*step, 3);
  EXPECT_TRUE(three.expired());
  EXPECT_FALSE(again.expired());
}

TEST_F(StepRunnerTest, PerReplicaValuesComeFromTheLastRun) {
  SessionParts parts(graph_, {.replicas = 2});
  const auto step = parts.Prepare({x_}, {y_, x_});
  EXPECT_EQ(parts.log.last_run.load(), nullptr);
  ASSERT_TRUE(SessionParts::Run(*parts.runner, *step, {Tensor::Vector<float>({1, 2})}).ok());
  ASSERT_NE(parts.log.last_run.load(), nullptr);
  for (const int fetch : {0, 1}) {
    const auto values = ValuesPerReplica(*parts.log.last_run, fetch);
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_THAT(ValuesOf((*values)[1]), ElementsAre(fetch == 0 ? -2 : 2));
  }
  parts.runner->FreeMemory();
  EXPECT_EQ(parts.log.last_run.load(), nullptr);
}

// A runner holds an arena for the largest step that it has run, plus one step's fetches.
TEST_F(StepRunnerTest, RunnerMemoryIsKnownBeforeTheRun) {
  const Output copy = ops::Neg(root_, y_);
  const Output sum =
      ops::Sum(root_, ops::Cumsum(root_, y_, ops::ScalarConst(root_, DT_INT32, 0)), {0});
  SessionParts parts(graph_);
  const auto large_fetch = parts.Prepare({x_}, {copy}), large_inside = parts.Prepare({x_}, {sum});
  const Tensor feed = *Tensor::Allocate(DT_FLOAT, {1000});
  const auto bytes = [&](const PreparedStep& step) {
    return parts.runner->BytesWith(**parts.runner->Bind(step, {feed}, {}));
  };
  const int64_t fetch = bytes(*large_fetch), inside = bytes(*large_inside);
  EXPECT_GE(inside, 4000);
  ASSERT_TRUE(SessionParts::Run(*parts.runner, *large_inside, {feed}).ok());
  EXPECT_EQ(bytes(*large_inside), inside);
  EXPECT_GE(bytes(*large_fetch), inside + 4000 - 64);
  parts.runner->FreeMemory();
  EXPECT_EQ(bytes(*large_fetch), fetch);
}

TEST_F(StepRunnerTest, TwoRunnersShareVariablesAndCompiledSteps) {
  const Output sum = ops::AddV2(root_, x_, v_.value);
  SessionParts parts(graph_);
  ASSERT_EQ(parts.variables->Assign({{0, Tensor::Scalar<float>(1)}}), absl::OkStatus());
  const auto step = parts.Prepare({x_}, {sum});
  const auto other = parts.NewRunner();
  const auto work = [&](StepRunner& runner, float base) {
    for (int i = 0; i < 200; ++i) {
      const float value = base + static_cast<float>(i);
      const auto out = SessionParts::Run(
          runner, *step, {Tensor::Vector<float>(std::vector<float>(1 + i % 5, value))});
      ASSERT_TRUE(out.ok()) << out.status();
      for (const float got : ValuesOf((*out)[0])) ASSERT_EQ(got, value + 1);
    }
  };
  std::thread thread([&] { work(*other, 1000); });
  work(*parts.runner, 0);
  thread.join();
  EXPECT_EQ(parts.cache->size(), 5u);
}

}  // namespace
}  // namespace mirrorflow
