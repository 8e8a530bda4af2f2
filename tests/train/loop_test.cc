// SPDX-License-Identifier: Apache-2.0
#include "train/loop.h"

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/ops.h"
#include "train/layers.h"
#include "train/optimizer.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

constexpr int64_t kRows = 10;

// y = 2 x - 1 at kRows points. An epoch has three batches, of 4, 4 and 2 rows.
Dataset Line(float last_y = 2 * 9 * 0.25f - 1) {
  std::vector<float> x, y;
  for (int64_t i = 0; i < kRows; ++i) {
    x.push_back(0.25f * static_cast<float>(i));
    y.push_back(2 * x.back() - 1);
  }
  y.back() = last_y;
  return Dataset::FromTensors({Tensor::Of<float>({kRows, 1}, x), Tensor::Of<float>({kRows, 1}, y)});
}

// Fits a line to the points. The parameter is the number of replicas; 0 selects OneDeviceStrategy.
class TrainLoopTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (GetParam() == 0) {
      auto one = OneDeviceStrategy::Create();
      ASSERT_TRUE(one.ok()) << one.status();
      strategy_ = *std::move(one);
    } else {
      auto mirrored =
          MirroredStrategy::Create({.num_cpu_replicas = GetParam(), .pin_threads = false});
      ASSERT_TRUE(mirrored.ok()) << mirrored.status();
      strategy_ = *std::move(mirrored);
    }
    const Scope root(&graph_);
    const auto scope = strategy_->scope();
    x_ = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 1});
    y_ = ops::Placeholder(root.WithName("y"), DT_FLOAT, {-1, 1});
    loss_ = losses::MeanSquaredError(root, layers::Dense(root, x_, 1), y_);
    const Operation train = Momentum({.learning_rate = 0.05}).Minimize(root, loss_);
    auto session = strategy_->NewSession(graph_);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    const auto step = session_->Prepare({x_, y_}, {loss_}, {train});
    ASSERT_TRUE(step.ok()) << step.status();
    step_ = *step;
  }

  absl::StatusOr<TrainResult> Train(const Dataset& dataset, TrainLoopOptions options) {
    if (!options.on_step) {
      options.on_step = [this](int64_t step, float loss) {
        steps_.push_back(step);
        losses_.push_back(loss);
        return absl::OkStatus();
      };
    }
    const std::unique_ptr<ProgressHost> host = StderrHost();
    Progress progress(*host, {.format = LogFormat::kOff});
    return TrainLoop(*strategy_, step_, dataset, progress, options);
  }

  std::unique_ptr<Strategy> strategy_;
  Graph graph_;
  Output x_, y_, loss_;
  std::unique_ptr<Session> session_;
  Step step_;
  std::vector<int64_t> steps_;  // as passed to on_step
  std::vector<float> losses_;
};

INSTANTIATE_TEST_SUITE_P(Replicas, TrainLoopTest, ::testing::Values(0, 2, 3));

TEST_P(TrainLoopTest, VisitsDatasetOncePerEpoch) {
  const auto result = Train(Line().Batch(4), {.epochs = 2});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 6);
  EXPECT_THAT(steps_, ElementsAre(1, 2, 3, 4, 5, 6));
  // The loss is the mean over the steps of the last epoch.
  EXPECT_FLOAT_EQ(result->loss, (losses_[3] + losses_[4] + losses_[5]) / 3);
  EXPECT_GT(result->median_step_ms, 0);
  EXPECT_FLOAT_EQ(result->examples_per_s, 4 * 1000 / result->median_step_ms);
}

TEST_P(TrainLoopTest, ChecksReplicasOfItsSession) {
  const auto result = Train(Line().Batch(4), {.check_replicas = 1, .session = session_.get()});
  EXPECT_TRUE(result.ok()) << result.status();
  const auto without = Train(Line().Batch(4), {.check_replicas = 1});
  EXPECT_EQ(without.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(without.status().message()), HasSubstr("expected the session"));
}

TEST_P(TrainLoopTest, StepLimitOverridesEpochs) {
  for (const int64_t steps : {1, 3, 4, 8}) {
    steps_.clear();
    const auto result = Train(Line().Batch(4), {.epochs = 2, .steps = steps});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->steps, steps);
    EXPECT_EQ(steps_.size(), static_cast<size_t>(steps));
    EXPECT_EQ(steps_.back(), steps);
  }
  const auto one = Train(Line().Batch(4), {.steps = 1});
  EXPECT_EQ(one->median_step_ms, 0) << "the first step compiles and is not timed";
}

TEST_P(TrainLoopTest, StepLimitEndsTrainingOnEndlessDataset) {
  const auto result = Train(Line().Repeat().Batch(4), {.steps = 5});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 5);
}

TEST_P(TrainLoopTest, ReducesLossAndFitsLine) {
  const auto result = Train(Line().Shuffle(1).Batch(4), {.epochs = 150});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(result->loss, 1e-4);
  for (int r = 0; r < session_->num_local_replicas(); ++r) {
    EXPECT_NEAR(session_->ReadVariable("dense/kernel", r)->flat<float>()[0], 2, 0.05);
    EXPECT_NEAR(session_->ReadVariable("dense/bias", r)->flat<float>()[0], -1, 0.05);
  }
}

// With fixed variables each row has its own loss, so the losses show the order.
TEST_P(TrainLoopTest, EpochsHaveDifferentOrdersThatRepeatInEveryRun) {
  const auto only_loss = session_->Prepare({x_, y_}, {loss_});
  ASSERT_TRUE(only_loss.ok()) << only_loss.status();
  step_ = *only_loss;
  ASSERT_TRUE(Train(Line().Shuffle(3).Batch(1), {.epochs = 2}).ok());
  const std::vector<float> run = std::exchange(losses_, {});
  ASSERT_TRUE(Train(Line().Shuffle(3).Batch(1), {.epochs = 2}).ok());
  EXPECT_EQ(losses_, run);
  const std::vector<float> first(run.begin(), run.begin() + kRows);
  const std::vector<float> second(run.begin() + kRows, run.end());
  EXPECT_NE(first, second);
  EXPECT_THAT(second, UnorderedElementsAreArray(first));
}

TEST_P(TrainLoopTest, ErrorFromOnStepEndsTraining) {
  int64_t calls = 0;
  TrainLoopOptions options{.epochs = 5};
  options.on_step = [&calls](int64_t step, float) {
    ++calls;
    return step == 4 ? absl::CancelledError("enough") : absl::OkStatus();
  };
  const auto result = Train(Line().Batch(4), options);
  EXPECT_EQ(result.status(), absl::CancelledError("enough"));
  EXPECT_EQ(calls, 4);
}

TEST_P(TrainLoopTest, NonFiniteLossEndsTrainingWithStepAndChangesNothing) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<Tensor> before;
    TrainLoopOptions options{.epochs = 2};
    std::vector<float> losses;
    options.on_step = [&](int64_t step, float loss) {
      losses.push_back(loss);
      if (step == 2)
        before = {*session_->ReadVariable("dense/kernel"), *session_->ReadVariable("dense/bias")};
      return absl::OkStatus();
    };
    const auto result = Train(Line(bad).Batch(4), options);  // the last row is in step 3
    EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(result.status().message()),
                HasSubstr("step 3: the loss is not finite; expected a number, got "));
    ASSERT_EQ(losses.size(), 3u) << "expected on_step to get the bad loss too";
    EXPECT_FALSE(std::isfinite(losses[2]));
    for (int r = 0; r < session_->num_local_replicas(); ++r) {
      EXPECT_TRUE(Tensor::Identical(before[0], *session_->ReadVariable("dense/kernel", r)));
      EXPECT_TRUE(Tensor::Identical(before[1], *session_->ReadVariable("dense/bias", r)));
    }
  }
}

TEST_P(TrainLoopTest, StepWithoutScalarFloatLossIsRejected) {
  const Scope root(&graph_);
  const Output wide = ops::Cast(root, loss_, DT_DOUBLE);
  const Output index = ops::AddV2(root, loss_, ops::Cast(root, ops::ReplicaIndex(root), DT_FLOAT));
  const Output vector = ops::ExpandDims(root, loss_, ops::ScalarConst(root, DT_INT32, 0));
  session_ = *strategy_->NewSession(graph_);
  for (const auto& [fetches, got] : std::vector<std::pair<std::vector<Output>, std::string>>{
           {{}, "got no fetch"},
           {{wide}, "got double[]"},
           {{vector, loss_}, "got float[1]"},
           {{index},
            session_->world_size() > 1 ? "got a value that differs between replicas" : ""}}) {
    if (got.empty()) continue;
    step_ = *session_->Prepare({x_, y_}, fetches);
    const auto result = Train(Line().Batch(4), {});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(got));
    EXPECT_TRUE(losses_.empty());
  }
}

// Only the updates of Minimize are skipped if the loss is not finite; the loop does not know which
// variables they cover.
TEST_P(TrainLoopTest, NonFiniteLossDoesNotClaimUnchangedVariables) {
  const Scope root(&graph_);
  Variable count;
  {
    const auto scope = strategy_->scope();
    count = CreateVariable(root, "count", {}, initializers::Zeros());
  }
  const Operation add =
      ops::AssignAddVariableOp(root, count.handle, ops::ScalarConst(root, DT_FLOAT, 1));
  session_ = *strategy_->NewSession(graph_);
  step_ = *session_->Prepare({x_, y_}, {loss_}, {add});
  const auto result = Train(Line(std::numeric_limits<float>::infinity()).Batch(kRows), {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(session_->ReadVariable("count")->scalar<float>(), 1);
  EXPECT_EQ(result.status().message().find("no variable"), absl::string_view::npos)
      << result.status();
}

TEST_P(TrainLoopTest, ErrorsOfDatasetAndStepAreReturned) {
  EXPECT_THAT(std::string(Train(Line().Batch(0), {}).status().message()),
              HasSubstr("dataset: Batch() size out of range"));
  EXPECT_THAT(std::string(Train(Line().Take(0).Batch(4), {}).status().message()),
              HasSubstr("epoch 1: the dataset has no batch"));
  EXPECT_THAT(std::string(Train(Line().Take(0).Batch(4), {.steps = 3}).status().message()),
              HasSubstr("epoch 1: the dataset has no batch"));
  const Dataset wide = Dataset::FromTensors(
      {Tensor::Of<float>({2, 2}, {1, 2, 3, 4}), Tensor::Of<float>({2, 1}, {1, 2})});
  EXPECT_THAT(std::string(Train(wide.Batch(2), {}).status().message()), HasSubstr("feed x"));
}

}  // namespace
}  // namespace mirrorflow
