// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"
#include "train/optimizers/optimizers.h"
#include "train/optimizers/schedules.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

// Trains w, which starts at 0, by plain gradient descent on the loss w * x. Because x is -1, each
// step adds its learning rate to w.
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

TEST(PiecewiseConstant, RejectsMismatchedBoundariesAndValues) {
  for (const schedules::PiecewiseConstantOptions& options :
       {schedules::PiecewiseConstantOptions{{2}, {1}}, {{3, 2}, {1, 2, 3}}}) {
    const absl::StatusOr<Line> line = MakeLine(schedules::PiecewiseConstant(options));
    EXPECT_THAT(line.status(), IsError(absl::StatusCode::kInvalidArgument, "one more value"));
  }
}

TEST(CosineDecay, RejectsZeroDecaySteps) {
  const absl::StatusOr<Line> line = MakeLine(schedules::CosineDecay({}));
  EXPECT_THAT(line.status(), IsError(absl::StatusCode::kInvalidArgument, "decay_steps:", "got 0"));
}

TEST(DecaySchedules, RejectOptionsOutOfRange) {
  const struct {
    LearningRateSchedule schedule;
    const char* place;
    const char* token;
  } cases[] = {
      {schedules::ExponentialDecay({}), "ExponentialDecay: decay_steps:", "got 0"},
      {schedules::InverseTimeDecay({}), "InverseTimeDecay: decay_steps:", "got 0"},
      {schedules::PolynomialDecay({.decay_steps = -1}), "PolynomialDecay: decay_steps:", "got -1"},
      {schedules::CosineDecayRestarts({}), "CosineDecayRestarts: first_decay_steps:", "got 0"},
      {schedules::CosineDecayRestarts({.first_decay_steps = 2, .t_mul = 0.5}),
       "CosineDecayRestarts: t_mul:", "got 0.5"},
  };
  for (const auto& [schedule, place, token] : cases) {
    const absl::StatusOr<Line> line = MakeLine(schedule);
    EXPECT_THAT(line.status(), IsError(absl::StatusCode::kInvalidArgument, place, token));
  }
}

TEST(WarmUp, RisesToConstantRate) {
  ExpectRates(schedules::WarmUp({.steps = 4, .after = 0.5}), {0, 0.125, 0.25, 0.375, 0.5, 0.5});
  ExpectRates(schedules::WarmUp({.steps = 0, .after = 0.5}), {0.5, 0.5});
}

TEST(OneCycle, MatchesPyTorch) {
  absl::StatusOr<Line> line = MakeLine({.max_learning_rate = 1, .total_steps = 10});
  ASSERT_TRUE(line.ok()) << line.status();
  // Computed in double precision by the formula of torch.optim.lr_scheduler.OneCycleLR(max_lr=1,
  // total_steps=10).
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
  EXPECT_THAT(line.status(),
              IsError(absl::StatusCode::kInvalidArgument, "OneCycle:", "total_steps:", "got 0"));
}

}  // namespace
}  // namespace mirrorflow
