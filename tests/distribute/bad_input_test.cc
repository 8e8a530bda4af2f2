// SPDX-License-Identifier: Apache-2.0
//
// Tests invalid use of strategies, sessions and steps. Each mistake returns an error that locates
// it, changes no variable and leaves the session usable.
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "distribute/strategy/strategy.h"
#include "framework/runtime/variable_layout.h"
#include "framework/session/step_plans.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

constexpr int kRows = 7;
constexpr int kClasses = 4;

std::vector<Tensor> GoodBatch() {
  const Tensor x = *Tensor::Allocate(DT_FLOAT, {kRows, 3});
  for (int i = 0; i < kRows * 3; ++i) x.data<float>()[i] = static_cast<float>(i % 5) - 2;
  return {x, Tensor::Vector<int32_t>({0, 1, 2, 3, 0, 1, 2})};
}

// One dense layer trained with Momentum. The parameter is the number of replicas; 0 selects
// OneDeviceStrategy.
class BadInputTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const CompileOptions checked{.verify = true, .check_plan = true};
    if (GetParam() == 0) {
      auto one = OneDeviceStrategy::Create({.compile = checked});
      ASSERT_TRUE(one.ok()) << one.status();
      strategy_ = *std::move(one);
    } else {
      auto mirrored = MirroredStrategy::Create(
          {.num_cpu_replicas = GetParam(), .pin_threads = false, .compile = checked});
      ASSERT_TRUE(mirrored.ok()) << mirrored.status();
      strategy_ = *std::move(mirrored);
    }
    const Scope root(&graph_);
    const auto scope = strategy_->scope();
    x_ = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 3});
    labels_ = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
    logits_ = layers::Dense(root, x_, kClasses);
    loss_ = losses::SparseSoftmaxCrossEntropy(root, logits_, labels_);
    train_ = Momentum({.learning_rate = 0.1}).Minimize(root, loss_);
    auto session = strategy_->NewSession(graph_);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    const auto step = session_->Prepare({x_, labels_}, {loss_}, {train_});
    ASSERT_TRUE(step.ok()) << step.status();
    step_ = *step;
    ASSERT_TRUE(step_.Run(GoodBatch()).ok());
  }

  std::vector<Tensor> Variables() const {
    std::vector<Tensor> values;
    for (const VariableInfo& v : session_->layout().variables()) {
      for (int r = 0; r < session_->num_local_replicas(); ++r) {
        values.push_back(*session_->ReadVariable(v.name, r));
      }
    }
    return values;
  }

  // Runs the step on `feeds` and returns its error. Expects the run to change no variable and to
  // leave the session usable.
  absl::Status Fails(absl::Span<const Tensor> feeds, absl::Span<const int64_t> rows = {}) {
    const std::vector<Tensor> before = Variables();
    const absl::Status status = step_.Run(feeds, {.replica_rows = rows}).status();
    const std::vector<Tensor> after = Variables();
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(Tensor::Identical(before[i], after[i])) << "variable " << i << ": " << status;
    }
    EXPECT_TRUE(step_.Run(GoodBatch()).ok());
    return status;
  }

  std::unique_ptr<Strategy> strategy_;
  Graph graph_;
  Output x_, labels_, logits_, loss_;
  Operation train_;
  std::unique_ptr<Session> session_;
  Step step_;
};

INSTANTIATE_TEST_SUITE_P(Replicas, BadInputTest, ::testing::Values(0, 1, 2, 3));

TEST_P(BadInputTest, FeedOfWrongDtypeReportsBothDtypes) {
  const std::vector<Tensor> good = GoodBatch();
  EXPECT_THAT(Fails({*Tensor::Allocate(DT_DOUBLE, {kRows, 3}), good[1]}),
              IsError(absl::StatusCode::kInvalidArgument, "feed x:", "got double"));
  EXPECT_THAT(Fails({good[0], *Tensor::Allocate(DT_INT64, {kRows})}),
              IsError(absl::StatusCode::kInvalidArgument, "feed labels:", "got int64"));
  EXPECT_THAT(Fails({good[0], Tensor()}),
              IsError(absl::StatusCode::kInvalidArgument, "feed labels"));
}

TEST_P(BadInputTest, FeedOfWrongShapeReportsNameAndShape) {
  const std::vector<Tensor> good = GoodBatch();
  for (const Shape& shape : {Shape({kRows, 2}), Shape({kRows}), Shape({kRows, 3, 1}), Shape()}) {
    const absl::Status status = Fails({*Tensor::Allocate(DT_FLOAT, shape), good[1]});
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "feed x", shape.ToString()));
  }
}

TEST_P(BadInputTest, FeedsWithDifferentRowCountsReportConsumingNode) {
  EXPECT_THAT(
      Fails({GoodBatch()[0], Tensor::Vector<int32_t>({0, 1, 2})}),
      IsError(absl::StatusCode::kInvalidArgument, "SparseSoftmaxCrossEntropyWithLogits(loss/"));
}

TEST_P(BadInputTest, WrongNumberOfFeedsReportsBothCounts) {
  EXPECT_THAT(Fails({}), IsError(absl::StatusCode::kInvalidArgument, "(x, labels)", "got 0"));
  std::vector<Tensor> three = GoodBatch();
  three.push_back(three[0]);
  EXPECT_THAT(Fails(three), IsError(absl::StatusCode::kInvalidArgument, "(x, labels)", "got 3"));
}

TEST_P(BadInputTest, LabelOutOfRangeReportsNodeAndPositionInGlobalBatch) {
  for (const int32_t bad : {-1, kClasses, std::numeric_limits<int32_t>::max()}) {
    for (const int row : {0, kRows - 1}) {
      std::vector<Tensor> feeds = GoodBatch();
      feeds[1].data<int32_t>()[row] = bad;
      const absl::Status status = Fails(feeds);
      EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument,
                                  "SparseSoftmaxCrossEntropyWithLogits(loss/",
                                  absl::StrCat("position ", row), absl::StrCat("got ", bad)));
    }
  }
}

TEST_P(BadInputTest, InvalidReplicaRowsAreRejected) {
  const absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  const size_t replicas = session_->world_size();
  EXPECT_THAT(Fails(GoodBatch(), std::vector<int64_t>(replicas + 1, 1)),
              IsError(code, absl::StrCat("expected ", replicas), "got 1,1"));
  if (replicas == 1) return;  // nothing is sharded
  std::vector<int64_t> negative(replicas, 0);
  negative[0] = -1;
  negative[1] = kRows + 1;
  const int64_t huge = std::numeric_limits<int64_t>::max();  // the sum overflows
  for (const std::vector<int64_t>& rows :
       {negative, std::vector<int64_t>(replicas, kRows), std::vector<int64_t>(replicas, huge)}) {
    EXPECT_THAT(Fails(GoodBatch(), rows), IsError(code, absl::StrCat("sum ", kRows)));
  }
}

TEST_P(BadInputTest, ForeignOutputsAndEmptyStepsAreRejected) {
  Graph other;
  const Output y = ops::Placeholder(Scope(&other).WithName("y"), DT_FLOAT, {-1});
  const absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(session_->Prepare({y}, {loss_}).status(),
              IsError(code, "feed 0 'y':", "session's snapshot"));
  EXPECT_THAT(session_->Prepare({}, {y}).status(),
              IsError(code, "fetch 0 'y':", "session's snapshot"));
  EXPECT_THAT(session_->Prepare({}, {Output()}).status(), IsError(code, "0: invalid"));
  EXPECT_THAT(session_->Prepare({}, {}, {Operation()}).status(),
              IsError(code, "target 0", "invalid"));

  EXPECT_THAT(Step().Run({}).status(),
              IsError(absl::StatusCode::kFailedPrecondition, "step:", "not prepared"));
  EXPECT_THAT(CompileStep(Step(), {}).status(),
              IsError(absl::StatusCode::kFailedPrecondition, "step:", "not prepared"));
  EXPECT_THAT(Step().PerReplica(0).status(),
              IsError(absl::StatusCode::kFailedPrecondition, "step:", "not prepared"));
  EXPECT_THAT(step_.PerReplica(1).status(), IsError(code, "0 to 0", "got 1"));
  EXPECT_THAT(step_.PerReplica(-1).status(), IsError(code, "0 to 0", "got -1"));
}

TEST_P(BadInputTest, FetchWithMissingFeedReportsPlaceholder) {
  const auto step = session_->Prepare({x_}, {loss_});
  absl::Status status = step.status();
  if (step.ok()) status = Step(*step).Run({GoodBatch()[0]}).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "labels"));
}

TEST_P(BadInputTest, VariableRejectsValueOfWrongDtypeOrShape) {
  const std::vector<Tensor> before = Variables();
  const absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(session_->AssignVariable("dense/bias", *Tensor::Allocate(DT_FLOAT, {kClasses + 1})),
              IsError(code, "dense/bias"));
  EXPECT_THAT(session_->AssignVariable("dense/bias", *Tensor::Allocate(DT_DOUBLE, {kClasses})),
              IsError(code, "dense/bias"));
  EXPECT_THAT(session_->AssignVariable("dense/bais", *Tensor::Allocate(DT_FLOAT, {kClasses})),
              IsError(absl::StatusCode::kNotFound, "dense/bais"));
  EXPECT_THAT(session_->ReadVariable("dense/bias", GetParam() + 1).status(),
              IsError(code, "replica", absl::StrCat("got ", GetParam() + 1)));
  EXPECT_THAT(session_->ReadVariable("dense/bias", -1).status(),
              IsError(code, "replica", "got -1"));
  const std::vector<Tensor> after = Variables();
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(Tensor::Identical(before[i], after[i]));
}

TEST_P(BadInputTest, GraphWithCycleReportsCycle) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {3});
  const Output a = ops::Neg(root.WithName("a"), x);
  const Output b = ops::Exp(root.WithName("b"), a);
  graph.SetInput(a.node, 0, b);
  const auto session = strategy_->NewSession(graph);
  absl::Status status = session.status();
  if (session.ok()) {
    const auto step = (*session)->Prepare({x}, {b});
    status =
        step.ok() ? Step(*step).Run({*Tensor::Allocate(DT_FLOAT, {3})}).status() : step.status();
  }
  EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "cycle: a -> b -> a"));
}

}  // namespace
}  // namespace mirrorflow
