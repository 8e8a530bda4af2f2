// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

// Creates a variable with the initial value `value`.
Variable VariableOf(const Scope& scope, absl::string_view name, const Tensor& value,
                    const VariableOptions& options = {}) {
  auto initial = [value](const Scope& s, const Shape&, DataType) { return ops::Const(s, value); };
  return CreateVariable(scope, name, value.shape(), initial, value.dtype(), options);
}

std::vector<std::string> VariableNames(const Optimizer& optimizer) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 3});
  const Output y = layers::Dense(root, x, 2);
  optimizer.Minimize(root, losses::MeanSquaredError(root, y, y));
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  std::vector<std::string> names;
  for (const Node* node : graph.Nodes()) {
    if (node->op().role == OpRole::kVariable) names.push_back(node->name());
  }
  return names;
}

// Checkpoints contain these names, so they must not change.
TEST(OptimizerSlotsTest, SlotsAreNamedAfterTheirVariable) {
  using ::testing::ElementsAre;
  using ::testing::UnorderedElementsAre;
  EXPECT_THAT(VariableNames(SGD()), ElementsAre("dense/kernel", "dense/bias"));
  EXPECT_THAT(VariableNames(Momentum()),
              UnorderedElementsAre("dense/kernel", "dense/bias", "train/dense/kernel/momentum",
                                   "train/dense/bias/momentum"));
  EXPECT_THAT(VariableNames(Adam({})),
              UnorderedElementsAre("dense/kernel", "dense/bias", "train/dense/kernel/m",
                                   "train/dense/kernel/v", "train/dense/bias/m",
                                   "train/dense/bias/v", "train/beta1_power", "train/beta2_power"));
  EXPECT_THAT(
      VariableNames(Adafactor()),
      UnorderedElementsAre("dense/kernel", "dense/bias", "train/dense/kernel/r",
                           "train/dense/kernel/c", "train/dense/bias/v", "train/global_step"));
  EXPECT_THAT(VariableNames(Muon()),
              UnorderedElementsAre("dense/kernel", "dense/bias", "train/dense/kernel/momentum",
                                   "train/dense/bias/m", "train/dense/bias/v", "train/beta1_power",
                                   "train/beta2_power"));
}

// Expected values are the defaults of Keras 3.15. keras_steps_test.cc covers the other options'
// defaults.
TEST(OptimizerOptionsTest, DefaultsMatchKeras) {
  EXPECT_EQ(GradientDescent::Options().learning_rate.value(), 0.01);
  EXPECT_EQ(Momentum::Options().learning_rate.value(), 0.01);
  EXPECT_EQ(Adam::Options().learning_rate.value(), 0.001);
  EXPECT_EQ(AdamW::Options().learning_rate.value(), 0.001);
  EXPECT_EQ(AdamW::Options().weight_decay, 0.004);
  EXPECT_EQ(Adagrad::Options().learning_rate.value(), 0.001);
  EXPECT_EQ(RMSProp::Options().learning_rate.value(), 0.001);
  EXPECT_EQ(Adadelta::Options().learning_rate.value(), 0.001);
  EXPECT_EQ(Adafactor::Options().learning_rate.value(), 0.001);
  EXPECT_EQ(Adamax::Options().learning_rate.value(), 0.001);
  EXPECT_EQ(Ftrl::Options().learning_rate.value(), 0.001);
  EXPECT_EQ(Lamb::Options().learning_rate.value(), 0.001);
  EXPECT_EQ(Lion::Options().learning_rate.value(), 0.001);
  EXPECT_EQ(Muon::Options().learning_rate.value(), 0.001);
  EXPECT_EQ(Nadam::Options().learning_rate.value(), 0.001);
}

TEST(MinimizeTest, UpdatesOnlyRequestedTrainableVariables) {
  Graph graph;
  const Scope root(&graph);
  const Tensor one = Tensor::Scalar<float>(1);
  const Variable a = VariableOf(root, "a", one), b = VariableOf(root, "b", one);
  const Variable fixed = VariableOf(root, "fixed", one, {.trainable = false});
  VariableOf(root, "unused", one);
  const Output loss =
      ops::Mul(root, ops::Mul(root, a.value, b.value), fixed.value);  // each gradient is 1
  const Operation all = SGD({0.5}).Minimize(root, loss);
  const Operation only_b = SGD({0.5}).Minimize(root, loss, {.variables = {b.handle}});
  const auto session = CreateTestSession(graph, {});
  ASSERT_TRUE(session.ok()) << session.status();
  auto value = [&](absl::string_view name) {
    return (*session)->ReadVariable(name)->scalar<float>();
  };
  ASSERT_TRUE((*session)->Run({}, {}, {only_b}).ok());
  EXPECT_EQ(value("a"), 1);
  EXPECT_EQ(value("b"), 0.5);
  ASSERT_TRUE((*session)->Run({}, {}, {all}).ok());
  EXPECT_EQ(value("a"), 0.75);
  EXPECT_EQ(value("b"), 0);
  EXPECT_EQ(value("fixed"), 1);
  EXPECT_EQ(value("unused"), 1);
}

TEST(MinimizeTest, RejectsNonScalarLossAndLossWithoutVariables) {
  for (const bool scalar : {false, true}) {
    Graph graph;
    const Scope root(&graph);
    const Variable v = VariableOf(root, "v", Tensor::Of<float>({2}, {1, 2}));
    const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, Shape());
    const Operation train = SGD({}).Minimize(root, scalar ? ops::Square(root, x) : v.value);
    EXPECT_FALSE(train.valid());
    EXPECT_THAT(graph.status(),
                scalar
                    ? IsError(absl::StatusCode::kInvalidArgument, "minimize(Square)", "no gradient")
                    : IsError(absl::StatusCode::kInvalidArgument, "scalar loss", "got shape [2]"));
  }
}

}  // namespace
}  // namespace mirrorflow
