// SPDX-License-Identifier: Apache-2.0
//
// Tests layers that are applied more than once with the same variables.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/layers/layers.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

Output TwoLayers(const Scope& scope, Output x) {
  return layers::Dense(scope, layers::Dense(scope, x, 3, ops::Tanh), 1);
}

std::vector<std::string> VariableNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node* node : graph.Nodes()) {
    if (node->op().role == OpRole::kVariable) names.push_back(node->name());
  }
  return names;
}

class SharedLayersTest : public ::testing::Test {
 protected:
  Output Rows(const char* name, int64_t width) {
    return ops::Placeholder(root_.WithName(name), DT_FLOAT, {kUnknownDim, width});
  }

  Graph graph_;
  const Scope root_{&graph_};
};

TEST_F(SharedLayersTest, ApplicationsShareOneSetOfVariables) {
  layers::Shared encoder("encoder", TwoLayers);
  const Output left = Rows("left", 2), right = Rows("right", 2);
  const Output a = encoder(root_, left), b = encoder(root_, right);
  ASSERT_TRUE(root_.ok()) << root_.status();
  EXPECT_THAT(VariableNames(graph_), ElementsAre("encoder/dense/kernel", "encoder/dense/bias",
                                                 "encoder/dense_1/kernel", "encoder/dense_1/bias"));
  const auto session = CreateTestSession(graph_, {.replicas = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  const Tensor x = Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto got = (*session)->Run({{left, x}, {right, x}}, {a, b});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(Difference((*got)[0], (*got)[1], {}), "");
  EXPECT_NE((*got)[0].data<float>()[0], 0);
}

// d/dw (x w + y w) = x + y.
TEST_F(SharedLayersTest, GradientsOfApplicationsAddUp) {
  layers::Shared dense("shared", [](const Scope& scope, Output x) {
    return layers::Dense(scope, x, 1, nullptr, {.use_bias = false});
  });
  const Output x = Rows("x", 2), y = Rows("y", 2);
  const Output loss = ops::Sum(root_, dense(root_, x) + dense(root_, y));
  const Operation train = SGD({.learning_rate = 1}).Minimize(root_, loss);
  ASSERT_TRUE(root_.ok()) << root_.status();
  const auto session = CreateTestSession(graph_, {.replicas = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(
      (*session)->AssignVariable("shared/dense/kernel", Tensor::Of<float>({2, 1}, {0, 0})).ok());
  const auto ran = (*session)->Run({{x, Tensor::Of<float>({2, 2}, {1, 2, 3, 4})},
                                    {y, Tensor::Of<float>({2, 2}, {10, 20, 30, 40})}},
                                   {loss}, {train});
  ASSERT_TRUE(ran.ok()) << ran.status();
  const auto kernel = (*session)->ReadVariable("shared/dense/kernel");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(Difference(Tensor::Of<float>({2, 1}, {-44, -66}), *kernel, {}), "");
}

TEST_F(SharedLayersTest, SharedLayerMayUseOneCreatedOutside) {
  layers::Shared embedding("embedding",
                           [](const Scope& scope, Output x) { return layers::Dense(scope, x, 2); });
  layers::Shared tower("tower", [&](const Scope& scope, Output x, double factor) {
    return layers::Dense(scope, embedding(scope, x) * factor, 1);
  });
  tower(root_, Rows("x", 2), 1);
  embedding(root_, Rows("y", 2));
  tower(root_, Rows("z", 2), 0.5);
  ASSERT_TRUE(root_.ok()) << root_.status();
  EXPECT_THAT(VariableNames(graph_),
              ElementsAre("tower/embedding/dense/kernel", "tower/embedding/dense/bias",
                          "tower/dense/kernel", "tower/dense/bias"));
}

TEST_F(SharedLayersTest, SharedLayerCreatedInsideAnotherIsRejected) {
  layers::Shared outer("outer", [](const Scope& scope, Output x) {
    layers::Shared inner("inner", TwoLayers);
    return inner(scope, x);
  });
  outer(root_, Rows("x", 2));
  ASSERT_TRUE(root_.ok()) << root_.status();
  outer(root_, Rows("y", 2));
  EXPECT_THAT(root_.status(), IsError(absl::StatusCode::kInvalidArgument, "outer:", "got 'kernel'",
                                      "outside outer"));
}

TEST_F(SharedLayersTest, InputOfDifferentWidthIsRejected) {
  layers::Shared encoder("encoder", TwoLayers);
  encoder(root_, Rows("x", 2));
  encoder(root_, Rows("y", 4));
  EXPECT_THAT(root_.status(),
              IsError(absl::StatusCode::kInvalidArgument, "encoder:", "float[2,3]", "float[4,3]"));
}

TEST_F(SharedLayersTest, ApplicationWithMoreOrFewerVariablesIsRejected) {
  const auto layer = [](const Scope& scope, Output x, bool use_bias) {
    return layers::Dense(scope, x, 1, nullptr, {.use_bias = use_bias});
  };
  layers::Shared fewer("fewer", layer);
  fewer(root_, Rows("x", 2), true);
  fewer(root_, Rows("y", 2), false);
  EXPECT_THAT(root_.status(),
              IsError(absl::StatusCode::kInvalidArgument, "fewer:", "expected 2", "got 1"));
  Graph graph;
  const Scope scope(&graph);
  const Output z = ops::Placeholder(scope, DT_FLOAT, {kUnknownDim, 2});
  layers::Shared more("more", layer);
  more(scope, z, false);
  more(scope, z, true);
  EXPECT_THAT(scope.status(),
              IsError(absl::StatusCode::kInvalidArgument, "more:", "only 1", "float[1]"));
}

TEST_F(SharedLayersTest, SecondApplicationOfBatchNormalizationIsRejected) {
  layers::Shared norm("norm",
                      [](const Scope& scope, Output x) { return layers::BatchNorm(scope, x); });
  norm(root_, Rows("x", 2));
  norm(root_, Rows("y", 2));
  EXPECT_THAT(root_.status(),
              IsError(absl::StatusCode::kUnimplemented, "batch_norm:", "moving averages"));
}

}  // namespace
}  // namespace mirrorflow
