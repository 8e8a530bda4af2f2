// SPDX-License-Identifier: Apache-2.0
#include "train/optimizers/learning_rate.h"

#include <cmath>
#include <limits>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/ops.h"
#include "tests/support/test_session.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

// Trains w, which starts at 0, by plain gradient descent on the loss w * x. With x = -1, a step
// adds its learning rate to w.
struct Line {
  std::unique_ptr<Session> session;
  Step step;

  double Run(float x) {
    EXPECT_TRUE(step.Run({Tensor::Scalar(x)}).ok());
    return session->ReadVariable("w")->scalar<float>();
  }
  int64_t global_step() { return session->ReadVariable("train/global_step")->scalar<int64_t>(); }
};

absl::StatusOr<Line> MakeLine(const LearningRateSchedule& schedule) {
  Graph graph;
  Scope root(&graph);
  const Variable w = CreateVariable(root, "w", {}, initializers::Zeros());
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, Shape());
  const Output loss = ops::Mul(root, w.value, x);
  const Operation train = GradientDescent({.learning_rate = schedule}).Minimize(root, loss);
  MF_RETURN_IF_ERROR(root.status());
  Line line;
  MF_ASSIGN_OR_RETURN(line.session, CreateTestSession(graph, {}));
  MF_ASSIGN_OR_RETURN(line.step, line.session->Prepare({x}, {}, {train}));
  return line;
}

absl::StatusOr<Line> MakeLine(const schedules::OneCycleOptions& options) {
  return MakeLine(schedules::OneCycle(options));
}

void ExpectRates(const LearningRateSchedule& schedule, const std::vector<double>& rates) {
  absl::StatusOr<Line> line = MakeLine(schedule);
  ASSERT_TRUE(line.ok()) << line.status();
  double before = 0;
  for (size_t i = 0; i < rates.size(); ++i) {
    const double after = line->Run(-1);
    EXPECT_NEAR(after - before, rates[i], 1e-6) << "step " << i;
    before = after;
  }
}

// The expected rates are those of Keras 3 on TensorFlow 2.21.
TEST(PiecewiseConstant, MatchesKeras) {
  ExpectRates(schedules::PiecewiseConstant({.boundaries = {2, 5}, .values = {1, 0.5, 0.125}}),
              {1, 1, 1, 0.5, 0.5, 0.5, 0.125, 0.125});
}

TEST(PiecewiseConstant, RejectsMismatchedBoundariesAndValues) {
  for (const schedules::PiecewiseConstantOptions& options :
       {schedules::PiecewiseConstantOptions{{2}, {1}}, {{3, 2}, {1, 2, 3}}}) {
    const absl::StatusOr<Line> line = MakeLine(schedules::PiecewiseConstant(options));
    EXPECT_THAT(std::string(line.status().message()), HasSubstr("one more value"));
  }
}

TEST(CosineDecay, MatchesKeras) {
  ExpectRates(
      schedules::CosineDecay({.initial_learning_rate = 0.8, .decay_steps = 4, .alpha = 0.25}),
      {0.8, 0.7121321, 0.5, 0.287868, 0.2, 0.2, 0.2});
}

TEST(CosineDecay, RejectsZeroDecaySteps) {
  const absl::StatusOr<Line> line = MakeLine(schedules::CosineDecay({}));
  EXPECT_THAT(std::string(line.status().message()), HasSubstr("decay_steps > 0, got 0"));
}

TEST(ExponentialDecay, MatchesKeras) {
  ExpectRates(schedules::ExponentialDecay(
                  {.initial_learning_rate = 0.8, .decay_steps = 3, .decay_rate = 0.5}),
              {0.8, 0.6349604, 0.5039684, 0.4, 0.3174802, 0.2519842, 0.2});
  ExpectRates(
      schedules::ExponentialDecay(
          {.initial_learning_rate = 0.8, .decay_steps = 3, .decay_rate = 0.5, .staircase = true}),
      {0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2});
}

TEST(InverseTimeDecay, MatchesKeras) {
  ExpectRates(schedules::InverseTimeDecay(
                  {.initial_learning_rate = 0.8, .decay_steps = 3, .decay_rate = 0.5}),
              {0.8, 0.6857143, 0.6, 0.5333334, 0.48, 0.4363637, 0.4});
  ExpectRates(
      schedules::InverseTimeDecay(
          {.initial_learning_rate = 0.8, .decay_steps = 3, .decay_rate = 0.5, .staircase = true}),
      {0.8, 0.8, 0.8, 0.5333334, 0.5333334, 0.5333334, 0.4});
}

TEST(PolynomialDecay, MatchesKeras) {
  ExpectRates(schedules::PolynomialDecay({.initial_learning_rate = 0.8, .decay_steps = 4}),
              {0.8, 0.600025, 0.40005, 0.200075, 0.0001, 0.0001});
  ExpectRates(
      schedules::PolynomialDecay(
          {.initial_learning_rate = 0.8, .decay_steps = 4, .end_learning_rate = 0.2, .power = 2}),
      {0.8, 0.5375, 0.35, 0.2375, 0.2, 0.2, 0.2});
  ExpectRates(schedules::PolynomialDecay({.initial_learning_rate = 0.8,
                                          .decay_steps = 3,
                                          .end_learning_rate = 0.2,
                                          .power = 0.5,
                                          .cycle = true}),
              {0.8, 0.689898, 0.5464101, 0.2, 0.5464101, 0.444949, 0.2, 0.4828427, 0.4});
}

TEST(CosineDecayRestarts, MatchesKeras) {
  ExpectRates(
      schedules::CosineDecayRestarts({.initial_learning_rate = 0.8, .first_decay_steps = 2}),
      {0.8, 0.4, 0.8, 0.6828427, 0.4, 0.1171573, 0.8, 0.7695518, 0.6828427});
  ExpectRates(
      schedules::CosineDecayRestarts(
          {.initial_learning_rate = 0.8, .first_decay_steps = 2, .m_mul = 0.5, .alpha = 0.25}),
      {0.8, 0.5, 0.5, 0.456066, 0.35, 0.243934, 0.35, 0.344291, 0.328033, 0.3037013, 0.275,
       0.2462987, 0.221967, 0.205709, 0.275});
  ExpectRates(schedules::CosineDecayRestarts(
                  {.initial_learning_rate = 0.8, .first_decay_steps = 3, .t_mul = 1, .m_mul = 0.5}),
              {0.8, 0.6, 0.2, 0.4, 0.3, 0.1, 0.2, 0.15, 0.05});
}

TEST(DecaySchedules, RejectOptionsOutOfRange) {
  const std::pair<LearningRateSchedule, const char*> cases[] = {
      {schedules::ExponentialDecay({}), "ExponentialDecay: decay_steps: expected 1 or more, got 0"},
      {schedules::InverseTimeDecay({}), "InverseTimeDecay: decay_steps: expected 1 or more, got 0"},
      {schedules::PolynomialDecay({.decay_steps = -1}),
       "PolynomialDecay: decay_steps: expected 1 or more, got -1"},
      {schedules::CosineDecayRestarts({}),
       "CosineDecayRestarts: first_decay_steps: expected 1 or more, got 0"},
      {schedules::CosineDecayRestarts({.first_decay_steps = 2, .t_mul = 0.5}),
       "CosineDecayRestarts: t_mul: expected 1 or more, got 0.5"},
  };
  for (const auto& [schedule, message] : cases) {
    const absl::StatusOr<Line> line = MakeLine(schedule);
    EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(line.status().message()), HasSubstr(message));
  }
}

TEST(WarmUp, MatchesKerasBeforeCosineDecay) {
  ExpectRates(
      schedules::WarmUp({.steps = 3,
                         .initial_learning_rate = 0.1,
                         .after = schedules::CosineDecay(
                             {.initial_learning_rate = 0.8, .decay_steps = 4, .alpha = 0.25})}),
      {0.1, 0.3333333, 0.5666667, 0.8, 0.7121321, 0.5, 0.287868, 0.2, 0.2, 0.2});
}

TEST(WarmUp, RisesToConstantRate) {
  ExpectRates(schedules::WarmUp({.steps = 4, .after = 0.5}), {0, 0.125, 0.25, 0.375, 0.5, 0.5});
  ExpectRates(schedules::WarmUp({.steps = 0, .after = 0.5}), {0.5, 0.5});
}

TEST(OneCycle, MatchesPyTorch) {
  absl::StatusOr<Line> line = MakeLine({.max_learning_rate = 1, .total_steps = 10});
  ASSERT_TRUE(line.ok()) << line.status();
  // The formula of torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=10) in double
  // precision.
  const double expected[] = {0.04,     0.52,     1.0,       0.9504846, 0.8117457,
                             0.611262, 0.388742, 0.1882583, 0.0495194, 4e-06};
  double before = 0;
  for (double rate : expected) {
    const double after = line->Run(-1);
    EXPECT_NEAR(after - before, rate, 1e-6);
    before = after;
  }
  EXPECT_EQ(line->global_step(), 10);
}

TEST(OneCycle, StaysAtFinalRate) {
  absl::StatusOr<Line> line =
      MakeLine({.max_learning_rate = 1, .total_steps = 1, .div_factor = 2, .final_div_factor = 1});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->Run(-1), 0.5);
  EXPECT_EQ(line->Run(-1), 1.5);
  for (double total : {2.0, 2.5, 3.0}) EXPECT_EQ(line->Run(-1), total);
}

TEST(OneCycle, StepWithNonFiniteLossDoesNotCount) {
  absl::StatusOr<Line> line = MakeLine({.total_steps = 10});
  ASSERT_TRUE(line.ok()) << line.status();
  const double before = line->Run(-1);
  EXPECT_EQ(line->Run(std::numeric_limits<float>::quiet_NaN()), before);
  EXPECT_EQ(line->global_step(), 1);
}

TEST(OneCycle, RejectsOptionsOutOfRange) {
  const absl::StatusOr<Line> line = MakeLine({.total_steps = 0});
  EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(line.status().message()), HasSubstr("total_steps > 0"));
}

}  // namespace
}  // namespace mirrorflow
