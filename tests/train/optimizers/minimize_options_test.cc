// SPDX-License-Identifier: Apache-2.0
//
// Tests the options that all optimizers share. keras_steps_test.cc compares some of them with
// Keras.
#include "train/optimizers/minimize_options.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/inference.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using ClipFunction = std::vector<GradientAndVariable>(const Scope&,
                                                      absl::Span<const GradientAndVariable>,
                                                      double);

std::vector<Tensor> Clip(ClipFunction clip, const std::vector<Tensor>& values, double limit) {
  Graph graph;
  const Scope root(&graph);
  std::vector<GradientAndVariable> gradients;
  std::vector<std::pair<Output, Tensor>> feeds;
  for (const Tensor& value : values) {
    const Output g = ops::Placeholder(root, value.dtype(), value.shape());
    gradients.push_back({g, Output()});
    feeds.push_back({g, value});
  }
  std::vector<Output> clipped;
  for (const auto& gv : clip(root, gradients, limit)) clipped.push_back(gv.gradient);
  const auto session = CreateTestSession(graph, {});
  EXPECT_TRUE(session.ok()) << session.status();
  const auto result = (*session)->Run(feeds, clipped);
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

TEST(ClipTest, GlobalNormKeepsGradientsBelowLimit) {
  const std::vector<Tensor> gradients = {Tensor::Of<float>({2}, {3, 0}),
                                         Tensor::Of<float>({1, 2}, {0.1f, -4})};
  for (const double limit : {5.1, 1e6}) {
    const std::vector<Tensor> clipped = Clip(ClipByGlobalNorm, gradients, limit);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(Tensor::Identical(gradients[i], clipped[i])) << limit;
  }
}

TEST(ClipTest, GlobalNormAboveLimitScalesAllGradientsByOneFactor) {
  const std::vector<Tensor> clipped =
      Clip(ClipByGlobalNorm, {Tensor::Of<double>({2}, {3, 0}), Tensor::Of<double>({1, 2}, {0, -4})},
           0.5);
  const Tolerance rounding{.relative = 1e-14};
  EXPECT_EQ(Difference(Tensor::Of<double>({2}, {0.3, 0}), clipped[0], rounding), "");
  EXPECT_EQ(Difference(Tensor::Of<double>({1, 2}, {0, -0.4}), clipped[1], rounding), "");
}

TEST(ClipTest, NormScalesOnlyGradientsAboveLimit) {
  const std::vector<Tensor> clipped =
      Clip(ClipByNorm, {Tensor::Of<double>({2}, {3, 4}), Tensor::Of<double>({}, {-0.5})}, 1);
  const Tolerance rounding{.relative = 1e-14};
  EXPECT_EQ(Difference(Tensor::Of<double>({2}, {0.6, 0.8}), clipped[0], rounding), "");
  EXPECT_EQ(Difference(Tensor::Of<double>({}, {-0.5}), clipped[1], rounding), "");
}

TEST(ClipTest, ValueLimitsEachElement) {
  const std::vector<Tensor> clipped =
      Clip(ClipByValue, {Tensor::Of<float>({4}, {3, -0.25f, -1, kNan})}, 0.5);
  EXPECT_EQ(Difference(Tensor::Of<float>({4}, {0.5, -0.25f, -0.5, kNan}), clipped[0], {}), "");
}

TEST(ClipTest, ZeroGradientsStayZero) {
  const std::vector<Tensor> zero = {Tensor::Of<float>({2}, {0, 0})};
  for (ClipFunction* clip : {ClipByGlobalNorm, ClipByNorm, ClipByValue}) {
    EXPECT_TRUE(Tensor::Identical(Clip(*clip, zero, 1)[0], zero[0]));
  }
}

TEST(MinimizeOptionsTest, OptionsOutOfRangeAreRejected) {
  const struct {
    MinimizeOptions options;
    const char* place;
    const char* token;
  } cases[] = {
      {{.clipvalue = -1}, "minimize: clipvalue:", "got -1"},
      {{.clipnorm = kNan}, "minimize: clipnorm:", "got nan"},
      {{.global_clipnorm = -0.5}, "minimize: global_clipnorm:", "got -0.5"},
      {{.clipvalue = 1, .global_clipnorm = 2},
       "clipvalue, clipnorm and global_clipnorm",
       "got 1, 0 and 2"},
      {{.weight_decay = -0.1}, "minimize: weight_decay:", "got -0.1"},
      {{.learning_rate_multipliers = {{{}, -2}}}, "minimize: learning_rate_multipliers:", "got -2"},
      {{.use_ema = true, .ema_momentum = 1.5}, "minimize: ema_momentum:", "got 1.5"},
      {{.use_ema = true, .ema_overwrite_frequency = -1},
       "minimize: ema_overwrite_frequency:",
       "got -1"},
      {{.ema_overwrite_frequency = 2}, "minimize: ema_overwrite_frequency", "set use_ema"},
  };
  for (const auto& [options, place, token] : cases) {
    Graph graph;
    const Scope root(&graph);
    const Variable v = CreateVariable(root, "v", {}, initializers::Ones());
    EXPECT_FALSE(SGD().Minimize(root, ops::Square(root, v.value), options).valid());
    EXPECT_THAT(graph.status(), IsError(absl::StatusCode::kInvalidArgument, place, token));
  }
}

// A graph with variables "a", "b" and "layer/bias", which start at 1, and the loss x * (a + b +
// bias). All gradients are x.
struct Sum {
  explicit Sum(int replicas = 1) : replicas(replicas) {}

  absl::Status Prepare(const Operation& train) {
    MF_ASSIGN_OR_RETURN(session, CreateTestSession(graph, {.replicas = replicas}));
    MF_ASSIGN_OR_RETURN(step, session->Prepare({x}, {}, {train}));
    return absl::OkStatus();
  }
  void Run(float value) {
    const auto result = step.Run({Tensor::Vector<float>({value, value, value, value})});
    EXPECT_TRUE(result.ok()) << result.status();
  }
  float Value(absl::string_view name) { return session->ReadVariable(name)->scalar<float>(); }

  const int replicas;
  Graph graph;
  const Scope root{&graph};
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1});
  const Variable a = CreateVariable(root, "a", {}, initializers::Ones());
  const Variable b = CreateVariable(root, "b", {}, initializers::Ones());
  const Variable bias = CreateVariable(root.SubScope("layer"), "bias", {}, initializers::Ones());
  const Output sum = ops::AddN(root, {a.value, b.value, bias.value});
  const Output loss = ops::Mean(root, ops::Mul(root, x, sum), {0});
  std::unique_ptr<Session> session;
  Step step;
};

bool IsBias(absl::string_view name) { return absl::EndsWith(name, "bias"); }

TEST(MinimizeOptionsTest, LearningRateMultipliersApplyByHandleAndByName) {
  Sum m;
  const Operation train =
      SGD({.learning_rate = 0.5})
          .Minimize(m.root, m.loss,
                    {.learning_rate_multipliers = {
                         {{m.a.handle}, 0.5}, {IsBias, 2}, {{m.bias.handle}, 100}}});
  ASSERT_TRUE(m.Prepare(train).ok());
  m.Run(0.5);
  EXPECT_EQ(m.Value("a"), 0.875);
  EXPECT_EQ(m.Value("b"), 0.75);
  EXPECT_EQ(m.Value("layer/bias"), 0.5);
}

TEST(MinimizeOptionsTest, LearningRateMultiplierAppliesToWeightDecayAndToASchedule) {
  Sum m;
  const Operation train =
      SGD({.learning_rate = schedules::PiecewiseConstant({.boundaries = {0}, .values = {1, 0.5}})})
          .Minimize(m.root, m.loss,
                    {.weight_decay = 0.25, .learning_rate_multipliers = {{{m.a.handle}, 0.5}}});
  ASSERT_TRUE(m.Prepare(train).ok());
  m.Run(0);
  EXPECT_EQ(m.Value("a"), 0.875);
  EXPECT_EQ(m.Value("b"), 0.75);
  m.Run(0.5);
  EXPECT_EQ(m.Value("a"), 0.875 * (1 - 0.25 * 0.25) - 0.125);
  EXPECT_EQ(m.Value("b"), 0.75 * (1 - 0.5 * 0.25) - 0.25);
}

TEST(MinimizeOptionsTest, WeightDecayExcludesByHandleAndByName) {
  for (const bool by_name : {false, true}) {
    Sum m;
    MinimizeOptions options = {.weight_decay = 0.5};
    if (by_name) {
      options.exclude_from_weight_decay = IsBias;
    } else {
      options.exclude_from_weight_decay = {m.bias.handle, m.a.handle};
    }
    ASSERT_TRUE(m.Prepare(SGD({.learning_rate = 0.5}).Minimize(m.root, m.loss, options)).ok());
    m.Run(0);
    EXPECT_EQ(m.Value("a"), by_name ? 0.75 : 1);
    EXPECT_EQ(m.Value("b"), 0.75);
    EXPECT_EQ(m.Value("layer/bias"), 1);
  }
}

TEST(MinimizeOptionsTest, WeightDecayOptionReplacesThatOfOptimizer) {
  Sum m;
  ASSERT_TRUE(m.Prepare(AdamW({.learning_rate = 0.5, .weight_decay = 0.5})
                            .Minimize(m.root, m.loss, {.weight_decay = 0}))
                  .ok());
  m.Run(0);
  EXPECT_EQ(m.Value("a"), 1);
}

TEST(MinimizeOptionsTest, ApplyGradientsObeysTheOptions) {
  Sum m;
  const auto gradients = Optimizer::ComputeGradients(m.root, m.loss, {m.a.handle, m.bias.handle});
  ASSERT_TRUE(m.Prepare(SGD({.learning_rate = 1})
                            .ApplyGradients(m.root, gradients, Output(), {.clipvalue = 0.25}))
                  .ok());
  m.Run(8);
  EXPECT_EQ(m.Value("a"), 0.75);
  EXPECT_EQ(m.Value("b"), 1);
  EXPECT_EQ(m.Value("layer/bias"), 0.75);
}

class MovingAverageTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Replicas, MovingAverageTest, ::testing::Values(1, 3));

TEST_P(MovingAverageTest, EvaluationAndFinalValuesUseTheAverages) {
  Sum m(GetParam());
  const Operation train =
      SGD({.learning_rate = 1})
          .Minimize(m.root, m.loss,
                    {.variables = {m.a.handle, m.b.handle}, .use_ema = true, .ema_momentum = 0.5});
  const Output product = ops::Mul(m.root, m.sum, ops::ScalarConst(m.root, DT_FLOAT, 10));
  const Output averaged = WithMovingAverages(m.root, ForInference(m.root, product));
  const Operation finalize = FinalizeVariableValues(m.root);
  ASSERT_TRUE(m.Prepare(train).ok()) << m.graph.status();
  // Before the first update, there are no averages, so finalizing changes no value.
  ASSERT_TRUE(m.session->Run({}, {}, {finalize}).ok());
  EXPECT_EQ(m.Value("a"), 1);
  m.Run(1);   // a = b = 0, and so are the averages
  m.Run(-2);  // a = b = 2; averages 0.5 * 0 + 0.5 * 2 = 1
  m.Run(kNan);
  EXPECT_EQ(m.Value("a"), 2);
  EXPECT_EQ(m.Value("train/a/average"), 1);
  EXPECT_EQ(m.Value("layer/bias"), 1);
  const auto out = m.session->Run({}, {product, averaged}, {});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 50);  // 10 * (2 + 2 + 1)
  EXPECT_EQ((*out)[1].scalar<float>(), 30);  // 10 * (1 + 1 + 1)
  ASSERT_TRUE(m.session->Run({}, {}, {finalize}).ok());
  for (int r = 0; r < m.replicas; ++r) {
    EXPECT_EQ(m.session->ReadVariable("a", r)->scalar<float>(), 1);
    EXPECT_EQ(m.session->ReadVariable("b", r)->scalar<float>(), 1);
  }
  EXPECT_EQ(m.Value("layer/bias"), 1);
}

TEST(NoMovingAverageTest, EvaluationIsUnchangedAndFinalizeFails) {
  Sum m;
  SGD().Minimize(m.root, m.loss);
  EXPECT_EQ(WithMovingAverages(m.root, m.sum), m.sum);
  EXPECT_FALSE(FinalizeVariableValues(m.root).valid());
  EXPECT_THAT(m.graph.status(), IsError(absl::StatusCode::kInvalidArgument, "set use_ema"));
}

}  // namespace
}  // namespace mirrorflow
