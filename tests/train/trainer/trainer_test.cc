// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/trainer.h"

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/metrics/metrics.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;
using ::testing::UnorderedElementsAreArray;

constexpr int64_t kRows = 10;

// Returns kRows points of y = 2 x - 1, except that the last y is `last_y`. With batches of 4, an
// epoch has three batches, of 4, 4 and 2 rows.
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
class TrainerTest : public ::testing::TestWithParam<int> {
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
    const Output predictions = layers::Dense(root, x_, 1);
    loss_ = losses::MeanSquaredError(root, predictions, y_);
    MakeTrainer({.inputs = {x_, y_},
                 .loss = loss_,
                 .train = Momentum({.learning_rate = 0.05}).Minimize(root, loss_),
                 .metrics = {{"error", metrics::MeanAbsoluteError(root, predictions, y_)}},
                 .predictions = predictions});
  }

  void MakeTrainer(const Model& model) {
    auto trainer = Trainer::Create(*strategy_, graph_, model);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    trainer_ = *std::move(trainer);
  }

  absl::StatusOr<TrainResult> Train(const Dataset& dataset, FitOptions options) {
    if (!options.on_step) {
      options.on_step = [this](int64_t step, float loss) {
        steps_.push_back(step);
        losses_.push_back(loss);
        return absl::OkStatus();
      };
    }
    return trainer_->Fit(dataset, options);
  }

  std::unique_ptr<Strategy> strategy_;
  Graph graph_;
  Output x_, y_, loss_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<int64_t> steps_;  // as passed to on_step
  std::vector<float> losses_;
};

INSTANTIATE_TEST_SUITE_P(Replicas, TrainerTest, ::testing::Values(0, 2, 3));

TEST_P(TrainerTest, FitReadsDatasetOncePerEpoch) {
  const auto result = Train(Line().Batch(4), {.epochs = 2});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 6);
  EXPECT_THAT(steps_, ElementsAre(1, 2, 3, 4, 5, 6));
  // The loss is the mean over the last epoch's rows.
  EXPECT_FLOAT_EQ(result->loss, (4 * losses_[3] + 4 * losses_[4] + 2 * losses_[5]) / 10);
  ASSERT_EQ(result->history.size(), 2u);
  EXPECT_EQ(result->history[1].at("loss"), result->loss);
  EXPECT_GT(result->median_step_ms, 0);
  EXPECT_FLOAT_EQ(result->examples_per_s, 4 * 1000 / result->median_step_ms);
}

TEST_P(TrainerTest, ReplicaChecksFindNoDifference) {
  const auto result = Train(Line().Batch(4), {.check_replicas = 1});
  EXPECT_TRUE(result.ok()) << result.status();
}

TEST_P(TrainerTest, StepLimitOverridesEpochs) {
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

TEST_P(TrainerTest, StepLimitEndsTrainingOnEndlessDataset) {
  const auto result = Train(Line().Repeat().Batch(4), {.steps = 5});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 5);
}

TEST_P(TrainerTest, ReducesLossAndFitsLine) {
  const auto result = Train(Line().Shuffle(1).Batch(4), {.epochs = 150});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(result->loss, 1e-4);
  for (int r = 0; r < trainer_->session().num_local_replicas(); ++r) {
    EXPECT_NEAR(trainer_->session().ReadVariable("dense/kernel", r)->flat<float>()[0], 2, 0.05);
    EXPECT_NEAR(trainer_->session().ReadVariable("dense/bias", r)->flat<float>()[0], -1, 0.05);
  }
}

// With fixed variables, each row has a different loss, so the losses reveal the order.
TEST_P(TrainerTest, OrderDiffersBetweenEpochsButNotBetweenRuns) {
  const Scope root(&graph_);
  const auto scope = strategy_->scope();
  MakeTrainer({.inputs = {x_, y_},
               .loss = loss_,
               .train = GradientDescent({.learning_rate = 0}).Minimize(root, loss_)});
  ASSERT_TRUE(Train(Line().Shuffle(3).Batch(1), {.epochs = 2}).ok());
  const std::vector<float> run = std::exchange(losses_, {});
  ASSERT_TRUE(Train(Line().Shuffle(3).Batch(1), {.epochs = 2}).ok());
  EXPECT_EQ(losses_, run);
  const std::vector<float> first(run.begin(), run.begin() + kRows);
  const std::vector<float> second(run.begin() + kRows, run.end());
  EXPECT_NE(first, second);
  EXPECT_THAT(second, UnorderedElementsAreArray(first));
}

TEST_P(TrainerTest, ErrorFromOnStepEndsTraining) {
  int64_t calls = 0;
  FitOptions options{.epochs = 5};
  options.on_step = [&calls](int64_t step, float) {
    ++calls;
    return step == 4 ? absl::CancelledError("enough") : absl::OkStatus();
  };
  const auto result = Train(Line().Batch(4), options);
  EXPECT_EQ(result.status(), absl::CancelledError("enough"));
  EXPECT_EQ(calls, 4);
}

TEST_P(TrainerTest, NonFiniteLossEndsTrainingAndChangesNothing) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<Tensor> before;
    FitOptions options{.epochs = 2};
    std::vector<float> losses;
    options.on_step = [&](int64_t step, float loss) {
      losses.push_back(loss);
      if (step == 2)
        before = {*trainer_->session().ReadVariable("dense/kernel"),
                  *trainer_->session().ReadVariable("dense/bias")};
      return absl::OkStatus();
    };
    const auto result = Train(Line(bad).Batch(4), options);  // the last row is in step 3
    EXPECT_THAT(result.status(),
                IsError(absl::StatusCode::kOutOfRange, "step 3:", "loss", "expected a number"));
    ASSERT_EQ(losses.size(), 3u) << "on_step must also receive the bad loss";
    EXPECT_FALSE(std::isfinite(losses[2]));
    for (int r = 0; r < trainer_->session().num_local_replicas(); ++r) {
      EXPECT_TRUE(
          Tensor::Identical(before[0], *trainer_->session().ReadVariable("dense/kernel", r)));
      EXPECT_TRUE(Tensor::Identical(before[1], *trainer_->session().ReadVariable("dense/bias", r)));
    }
  }
}

TEST_P(TrainerTest, StepWithoutScalarFloatLossIsRejected) {
  const Scope root(&graph_);
  const Output wide = ops::Cast(root, loss_, DT_DOUBLE);
  const Output index = ops::AddV2(root, loss_, ops::Cast(root, ops::ReplicaIndex(root), DT_FLOAT));
  const Output vector = ops::ExpandDims(root, loss_, ops::ScalarConst(root, DT_INT32, 0));
  for (const auto& [loss, got] : std::vector<std::pair<Output, std::string>>{
           {Output(), "got none"}, {wide, "got double[]"}, {vector, "got float[1]"}}) {
    const auto trainer = Trainer::Create(*strategy_, graph_, {.inputs = {x_, y_}, .loss = loss});
    EXPECT_THAT(trainer.status(), IsError(absl::StatusCode::kInvalidArgument, got));
  }
  const auto scope = strategy_->scope();
  const Output classes = ops::Cast(root, y_, DT_INT32);
  const auto of_matrix = Trainer::Create(
      *strategy_, graph_,
      {.inputs = {x_, y_},
       .loss = loss_,
       .metrics = {{"matrix", metrics::ConfusionMatrix(root, classes, classes, 2)}}});
  EXPECT_THAT(of_matrix.status(),
              IsError(absl::StatusCode::kInvalidArgument, "metric 'matrix'", "got double[2,2]"));
  const auto without_inputs = Trainer::Create(*strategy_, graph_, {.loss = loss_});
  EXPECT_THAT(without_inputs.status(),
              IsError(absl::StatusCode::kInvalidArgument, "trainer", "inputs"));
  MakeTrainer({.inputs = {x_, y_}, .loss = loss_});
  EXPECT_THAT(Train(Line().Batch(4), {}).status(),
              IsError(absl::StatusCode::kFailedPrecondition, "trainer", "Fit()"));
  EXPECT_TRUE(trainer_->Evaluate(Line().Batch(4)).ok());
  EXPECT_THAT(trainer_->Predict(Line().Batch(4)).status(),
              IsError(absl::StatusCode::kFailedPrecondition, "trainer", "predictions"));
  if (strategy_->num_replicas_in_sync() == 1) return;
  MakeTrainer({.inputs = {x_, y_}, .loss = index});
  EXPECT_THAT(trainer_->Evaluate(Line().Batch(4)).status(),
              IsError(absl::StatusCode::kInvalidArgument, "differs between replicas"));
}

TEST_P(TrainerTest, EvaluateAndPredictReadEveryRowOnce) {
  ASSERT_TRUE(
      trainer_->session().AssignVariable("dense/kernel", Tensor::Of<float>({1, 1}, {2})).ok());
  ASSERT_TRUE(trainer_->session().AssignVariable("dense/bias", Tensor::Vector<float>({1})).ok());
  // Each row's error is 2, except for the last one, whose error is 5. The last batch has 1 row.
  const Dataset data = Line(2 * 9 * 0.25f - 4).Batch(3);
  for (int time = 0; time < 2; ++time) {
    const auto logs = trainer_->Evaluate(data);
    ASSERT_TRUE(logs.ok()) << logs.status();
    EXPECT_FLOAT_EQ(logs->at("loss"), (9 * 4 + 25) / 10.0);
    EXPECT_FLOAT_EQ(logs->at("error"), (9 * 2 + 5) / 10.0);
  }
  std::vector<float> x;
  for (int64_t i = 0; i < kRows; ++i) x.push_back(0.25f * static_cast<float>(i));
  const auto predictions =
      trainer_->Predict(Dataset::FromTensors({Tensor::Of<float>({kRows, 1}, x)}).Batch(3));
  ASSERT_TRUE(predictions.ok()) << predictions.status();
  ASSERT_EQ(predictions->shape(), Shape({kRows, 1}));
  for (int64_t i = 0; i < kRows; ++i) {
    EXPECT_FLOAT_EQ(predictions->flat<float>()[i], 2 * x[i] + 1);
  }
  const auto of_labelled = trainer_->Predict(data);
  ASSERT_TRUE(of_labelled.ok()) << of_labelled.status();
  EXPECT_TRUE(Tensor::Identical(*of_labelled, *predictions));
  const Dataset too_many = Dataset::Zip({Line(), Line()}).Batch(3);
  EXPECT_THAT(trainer_->Predict(too_many).status(),
              IsError(absl::StatusCode::kInvalidArgument, "expected 1 (x)", "got 4"));
}

TEST_P(TrainerTest, ValidatesAfterEachEpochAndEveryFewSteps) {
  const auto result = Train(Line().Batch(4), {.epochs = 2, .validation = Line().Batch(5)});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->history.size(), 2u);
  EXPECT_THAT(result->history[1],
              ElementsAre(Key("error"), Key("loss"), Key("val_error"), Key("val_loss")));
  const auto logs = trainer_->Evaluate(Line().Batch(4));
  EXPECT_FLOAT_EQ(result->history[1].at("val_loss"), logs->at("loss"));
  EXPECT_FLOAT_EQ(result->history[1].at("val_error"), logs->at("error"));

  class Count final : public Callback {
   public:
    absl::Status OnValidationEnd(TrainingState& state) override {
      at.push_back(state.position.step);
      return absl::OkStatus();
    }
    std::vector<int64_t> at;
  } count;
  ASSERT_TRUE(Train(Line().Batch(4), {.epochs = 2,
                                      .validation = Line().Batch(5),
                                      .validation_steps = 2,
                                      .callbacks = {&count}})
                  .ok());
  EXPECT_THAT(count.at, ElementsAre(2, 3, 4, 6, 6));
}

// Validation affects neither the random numbers nor the metrics of training.
TEST_P(TrainerTest, ValidationDoesNotChangeTraining) {
  const auto train = [&](std::optional<Dataset> validation) {
    SetUp();
    const Scope root(&graph_);
    std::vector<float> losses;
    EXPECT_TRUE(trainer_
                    ->Fit(Line().Shuffle(1).Batch(4), {.epochs = 3,
                                                       .validation = std::move(validation),
                                                       .on_step =
                                                           [&](int64_t, float loss) {
                                                             losses.push_back(loss);
                                                             return absl::OkStatus();
                                                           }})
                    .ok());
    EXPECT_EQ(trainer_->session().step(), 9u);
    return losses;
  };
  graph_ = Graph();
  const std::vector<float> without = train(std::nullopt);
  graph_ = Graph();
  EXPECT_EQ(train(Line().Batch(3)), without);
}

// A model that does not learn has the same metric in every epoch, unless the metric also counts
// rows from the previous epoch or from validation.
TEST_P(TrainerTest, MetricsOfEpochsCoverTheirOwnRows) {
  Graph graph;
  const Scope root(&graph);
  const auto scope = strategy_->scope();
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 1});
  const Output y = ops::Placeholder(root.WithName("y"), DT_FLOAT, {-1, 1});
  const Output predictions = layers::Dense(root, x, 1);
  const Output loss = losses::MeanSquaredError(root, predictions, y);
  const auto trainer =
      Trainer::Create(*strategy_, graph,
                      {.inputs = {x, y},
                       .loss = loss,
                       .train = SGD({.learning_rate = 0}).Minimize(root, loss),
                       .metrics = {{"error", metrics::MeanAbsoluteError(root, predictions, y)}}});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  for (const bool validates : {false, true}) {
    FitOptions options = {.epochs = 3};
    if (validates) options.validation = Line(/*last_y=*/100).Batch(3);
    const auto result = (*trainer)->Fit(Line().Batch(4), options);
    ASSERT_TRUE(result.ok()) << result.status();
    for (const Logs& logs : result->history) {
      EXPECT_EQ(logs.at("error"), result->history[0].at("error"));
      if (validates) {
        EXPECT_GT(logs.at("val_error"), logs.at("error") + 5);
      }
    }
  }
}

TEST_P(TrainerTest, MetricsAreEvaluatedInInferenceForm) {
  Graph graph;
  const Scope root(&graph);
  const auto scope = strategy_->scope();
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 1});
  const Output dropped = layers::Dropout(root, x, 0.5);
  const auto trainer =
      Trainer::Create(*strategy_, graph,
                      {.inputs = {x},
                       .loss = losses::MeanSquaredError(root, dropped, x),
                       .metrics = {{"error", metrics::MeanAbsoluteError(root, dropped, x)}}});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const Tensor ones = Tensor::Of<float>({8, 1}, {1, 1, 1, 1, 1, 1, 1, 1});
  const auto logs = (*trainer)->Evaluate(Dataset::FromTensors({ones}).Batch(8));
  ASSERT_TRUE(logs.ok()) << logs.status();
  EXPECT_EQ(logs->at("error"), 0);
}

TEST_P(TrainerTest, CallbacksReceiveEventsInOrder) {
  class Record final : public Callback {
   public:
    absl::Status OnTrainBegin(TrainingState& s) override { return Add("train begins", s); }
    absl::Status OnEpochBegin(TrainingState& s) override { return Add("epoch begins", s); }
    absl::Status OnStepBegin(TrainingState& s) override { return Add("step begins", s); }
    absl::Status OnStep(TrainingState& s) override { return Add("step", s); }
    absl::Status OnEpochEnd(TrainingState& s) override { return Add("epoch ends", s); }
    absl::Status OnTrainEnd(TrainingState& s) override { return Add("train ends", s); }
    void OnException(TrainingState& s, const absl::Status& why) override {
      Add(why.message(), s).IgnoreError();
    }
    absl::Status Add(absl::string_view what, TrainingState& state) {
      events.push_back(absl::StrCat(what, " ", state.position.epoch, " ", state.position.step));
      if (events.size() == fail_at) return absl::CancelledError("failed");
      if (events.size() == stop_at) state.StopTraining("enough");
      return absl::OkStatus();
    }
    std::vector<std::string> events;
    size_t fail_at = 0, stop_at = 0;
  };
  Record whole;
  ASSERT_TRUE(Train(Line().Batch(8), {.epochs = 1, .callbacks = {&whole}}).ok());
  EXPECT_THAT(whole.events,
              ElementsAre("train begins 0 0", "epoch begins 0 0", "step begins 0 0", "step 0 1",
                          "step begins 0 1", "step 0 2", "epoch ends 0 2", "train ends 1 2"));
  Record failed;
  failed.fail_at = 4;
  EXPECT_EQ(Train(Line().Batch(8), {.callbacks = {&failed}}).status(),
            absl::CancelledError("failed"));
  EXPECT_EQ(failed.events.back(), "failed 0 1");
  // OnEpochEnd is also called for an epoch in which training stops, if it had at least one step.
  Record stopped;
  stopped.stop_at = 4;
  const auto result = Train(Line().Batch(8), {.epochs = 5, .callbacks = {&stopped}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->stopped, "enough");
  EXPECT_EQ(result->steps, 1);
  EXPECT_EQ(stopped.events.back(), "train ends 1 1");
  EXPECT_EQ(stopped.events[4], "epoch ends 0 1");
  for (const size_t at : {2, 5}) {
    Record early;
    early.stop_at = at;
    const auto ended = Train(Line().Batch(8), {.epochs = 5, .callbacks = {&early}});
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_EQ(ended->steps, at == 2 ? 0 : 1);
    EXPECT_EQ(early.events.size(), at == 2 ? 3 : 7) << "no step may follow";
  }
}

// A non-finite loss skips only Minimize's updates. The trainer cannot tell which variables these
// updates cover, so the error must not claim that no variable changed.
TEST_P(TrainerTest, NonFiniteLossDoesNotClaimUnchangedVariables) {
  const Scope root(&graph_);
  Variable count;
  {
    const auto scope = strategy_->scope();
    count = CreateVariable(root, "count", {}, initializers::Zeros());
  }
  const Operation add =
      ops::AssignAddVariableOp(root, count.handle, ops::ScalarConst(root, DT_FLOAT, 1));
  MakeTrainer({.inputs = {x_, y_}, .loss = loss_, .train = add});
  const auto result = Train(Line(std::numeric_limits<float>::infinity()).Batch(kRows), {});
  EXPECT_THAT(result.status(), IsError(absl::StatusCode::kOutOfRange, "step 1", "loss"));
  EXPECT_EQ(trainer_->session().ReadVariable("count")->scalar<float>(), 1);
  EXPECT_EQ(result.status().message().find("no variable"), absl::string_view::npos)
      << result.status();
}

TEST_P(TrainerTest, ErrorsOfDatasetAndStepAreReturned) {
  EXPECT_THAT(Train(Line().Batch(0), {}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "dataset:", "Batch() size"));
  EXPECT_THAT(Train(Line().Take(0).Batch(4), {}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "epoch 1:", "dataset", "empty"));
  EXPECT_THAT(Train(Line().Take(0).Batch(4), {.steps = 3}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "epoch 1:", "dataset", "empty"));
  EXPECT_THAT(trainer_->Evaluate(Line().Take(0).Batch(4)).status(),
              IsError(absl::StatusCode::kInvalidArgument, "evaluation:", "one batch", "got none"));
  const Dataset wide = Dataset::FromTensors(
      {Tensor::Of<float>({2, 2}, {1, 2, 3, 4}), Tensor::Of<float>({2, 1}, {1, 2})});
  EXPECT_THAT(Train(wide.Batch(2), {}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "feed x"));
}

}  // namespace
}  // namespace mirrorflow
