// SPDX-License-Identifier: Apache-2.0
//
// Compares the learning rates of every schedule, in training on 1 and on 3 replicas, with those
// that tests/references/make_optimizer_steps.py stored from Keras.
#include <map>
#include <string>
#include <vector>

#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/formats/npz.h"
#include "train/optimizers/optimizers.h"
#include "train/optimizers/schedules.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

std::map<std::string, LearningRateSchedule> Schedules() {
  using namespace schedules;  // NOLINT: a table
  return {
      {"piecewise_constant", PiecewiseConstant({.boundaries = {2, 5}, .values = {1, 0.5, 0.125}})},
      {"cosine", CosineDecay({.initial_learning_rate = 0.8, .decay_steps = 4})},
      {"cosine_alpha",
       CosineDecay({.initial_learning_rate = 0.8, .decay_steps = 10, .alpha = 0.25})},
      {"cosine_warmup",
       WarmUp({.steps = 3,
               .initial_learning_rate = 0.1,
               .after =
                   CosineDecay({.initial_learning_rate = 0.8, .decay_steps = 4, .alpha = 0.25})})},
      {"exponential",
       ExponentialDecay({.initial_learning_rate = 0.8, .decay_steps = 3, .decay_rate = 0.5})},
      {"exponential_default", ExponentialDecay({.initial_learning_rate = 0.8, .decay_steps = 3})},
      {"exponential_staircase",
       ExponentialDecay(
           {.initial_learning_rate = 0.8, .decay_steps = 3, .decay_rate = 0.5, .staircase = true})},
      {"inverse_time",
       InverseTimeDecay({.initial_learning_rate = 0.8, .decay_steps = 3, .decay_rate = 0.5})},
      {"inverse_time_staircase",
       InverseTimeDecay(
           {.initial_learning_rate = 0.8, .decay_steps = 3, .decay_rate = 0.5, .staircase = true})},
      {"polynomial", PolynomialDecay({.initial_learning_rate = 0.8, .decay_steps = 4})},
      {"polynomial_power",
       PolynomialDecay(
           {.initial_learning_rate = 0.8, .decay_steps = 4, .end_learning_rate = 0.2, .power = 2})},
      {"polynomial_cycle", PolynomialDecay({.initial_learning_rate = 0.8,
                                            .decay_steps = 3,
                                            .end_learning_rate = 0.2,
                                            .power = 0.5,
                                            .cycle = true})},
      {"cosine_restarts",
       CosineDecayRestarts({.initial_learning_rate = 0.8, .first_decay_steps = 2})},
      {"cosine_restarts_lower",
       CosineDecayRestarts(
           {.initial_learning_rate = 0.8, .first_decay_steps = 2, .m_mul = 0.5, .alpha = 0.25})},
      {"cosine_restarts_equal",
       CosineDecayRestarts(
           {.initial_learning_rate = 0.8, .first_decay_steps = 3, .t_mul = 1, .m_mul = 0.5})},
  };
}

// Returns the learning rates of `count` steps. Each step starts at w = 0 and minimises the mean of
// w * x. All rows are x = -1, so the step adds its learning rate to w.
absl::StatusOr<Tensor> Rates(const LearningRateSchedule& schedule, int64_t count, int replicas) {
  Graph graph;
  const Scope root(&graph);
  const Variable w = CreateVariable(root, "w", {}, initializers::Zeros());
  const Output x = ops::Placeholder(root, DT_FLOAT, {kUnknownDim});
  const Output loss = ops::Mean(root, ops::Mul(root, w.value, x), {0});
  const Operation train = SGD({.learning_rate = schedule}).Minimize(root, loss);
  MF_RETURN_IF_ERROR(root.status());
  MF_ASSIGN_OR_RETURN(const auto session, CreateTestSession(graph, {.replicas = replicas}));
  MF_ASSIGN_OR_RETURN(Step step, session->Prepare({x}, {}, {train}));
  std::vector<float> rates;
  for (int64_t i = 0; i < count; ++i) {
    MF_RETURN_IF_ERROR(session->AssignVariable("w", Tensor::Scalar<float>(0)));
    // Three replicas get 3, 2 and 2 rows.
    MF_RETURN_IF_ERROR(step.Run({Tensor::Vector<float>({-1, -1, -1, -1, -1, -1, -1})}).status());
    MF_ASSIGN_OR_RETURN(const Tensor rate, session->ReadVariable("w", replicas - 1));
    rates.push_back(rate.scalar<float>());
  }
  return Tensor::Vector<float>(rates);
}

class KerasSchedules : public testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Replicas, KerasSchedules, testing::Values(1, 3));

TEST_P(KerasSchedules, RatesMatchKeras) {
  const auto stored = ReadNpz("tests/references/optimizers/schedules.npz");
  ASSERT_TRUE(stored.ok()) << stored.status();
  std::map<std::string, LearningRateSchedule> schedules = Schedules();
  for (const auto& [name, want] : *stored) {
    ASSERT_EQ(schedules.count(name), 1u) << name;
    const auto got = Rates(schedules[name], want.shape().dim(0), GetParam());
    ASSERT_TRUE(got.ok()) << name << ": " << got.status();
    EXPECT_EQ(Difference(want, *got, {.relative = 2e-6, .absolute = 1e-6}), "") << name;
    schedules.erase(name);
  }
  for (const auto& [name, schedule] : schedules) ADD_FAILURE() << name << " has no stored rates";
}

}  // namespace
}  // namespace mirrorflow
