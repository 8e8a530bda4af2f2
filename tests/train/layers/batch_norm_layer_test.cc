// SPDX-License-Identifier: Apache-2.0
//
// Tests layers::BatchNorm in training and in inference.
#include <cmath>
#include <limits>

#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/inference.h"
#include "train/layers/layers.h"
#include "train/optimizers/optimizers.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

// Returns a batch of four rows with two channels, whose means are 1.5 and 1 and whose variances are
// 1.25 and 4.5.
const Tensor& Batch() {
  static const Tensor* const batch =
      new Tensor(Tensor::Of<float>({4, 2}, {0, 4, 1, -2, 2, 1, 3, 1}));
  return *batch;
}

struct Model {
  Graph graph;
  Scope root{&graph};
  Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  Output y, inference, loss;
  Operation train;

  explicit Model(const layers::BatchNormOptions& options = {}) {
    y = layers::BatchNorm(root, x, nullptr, options);
    inference = ForInference(root, y);
    loss = ops::Mean(root, ops::Sum(root, ops::Square(root, y), {1}), {0});
    train = GradientDescent({.learning_rate = 0.5}).Minimize(root, loss);
  }
};

std::unique_ptr<Session> SessionOf(const Model& model, int replicas = 1) {
  auto session = CreateTestSession(model.graph, {.replicas = replicas});
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

std::string Variable(Session& session, const char* name, std::vector<float> want) {
  return Difference(Tensor::Vector<float>(want),
                    *session.ReadVariable(absl::StrCat("batch_norm/", name)), {1e-5, 1e-5});
}

TEST(BatchNormLayer, VariablesMatchKerasAndTwoAreTrainable) {
  const Model model;
  ASSERT_TRUE(model.root.ok()) << model.root.status();
  std::vector<std::string> trainable;
  for (const Output& v : TrainableVariables(model.graph)) trainable.push_back(v.node->name());
  EXPECT_THAT(trainable, ElementsAre("batch_norm/gamma", "batch_norm/beta"));
  const auto session = SessionOf(model);
  EXPECT_EQ(Variable(*session, "gamma", {1, 1}), "");
  EXPECT_EQ(Variable(*session, "beta", {0, 0}), "");
  EXPECT_EQ(Variable(*session, "moving_mean", {0, 0}), "");
  EXPECT_EQ(Variable(*session, "moving_variance", {1, 1}), "");
}

class BatchNormLayerOnReplicas : public testing::TestWithParam<int> {};

// The stored variance has Bessel's correction, here 4 / 3, as in TensorFlow's FusedBatchNormV3.
TEST_P(BatchNormLayerOnReplicas, StepUpdatesMovingAveragesOnce) {
  const Model model;
  const auto session = SessionOf(model, GetParam());
  Step step = session->Prepare({model.x}, {model.y}, {model.train}).value();
  const auto out = step.Run({Batch()});
  ASSERT_TRUE(out.ok()) << out.status();
  const double a = 1 / std::sqrt(1.25 + 1e-3), b = 1 / std::sqrt(4.5 + 1e-3);
  const Tensor want =
      Tensor::Of<float>({4, 2}, {static_cast<float>(-1.5 * a), static_cast<float>(3 * b),
                                 static_cast<float>(-0.5 * a), static_cast<float>(-3 * b),
                                 static_cast<float>(0.5 * a), 0, static_cast<float>(1.5 * a), 0});
  EXPECT_EQ(Difference(want, (*out)[0], {1e-5, 1e-5}), "");
  const float mean[] = {0.015f, 0.01f}, variance[] = {0.99f + 0.01f * 1.25f * 4 / 3, 1.05f};
  EXPECT_EQ(Variable(*session, "moving_mean", {mean[0], mean[1]}), "");
  EXPECT_EQ(Variable(*session, "moving_variance", {variance[0], variance[1]}), "");
  ASSERT_TRUE(step.Run({Batch()}).ok());
  EXPECT_EQ(Variable(*session, "moving_mean", {0.99f * mean[0] + mean[0], 1.99f * mean[1]}), "");
  // The optimizer updated the other variables.
  EXPECT_NE(Variable(*session, "gamma", {1, 1}), "");
}

TEST_P(BatchNormLayerOnReplicas, NonFiniteLossChangesNothing) {
  const Model model;
  const auto session = SessionOf(model, GetParam());
  Step step = session->Prepare({model.x}, {model.loss}, {model.train}).value();
  Tensor bad = Batch().Clone().value();
  bad.flat<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(step.Run({bad}).ok());
  EXPECT_EQ(Variable(*session, "moving_mean", {0, 0}), "");
  EXPECT_EQ(Variable(*session, "moving_variance", {1, 1}), "");
  EXPECT_EQ(Variable(*session, "gamma", {1, 1}), "");
}

TEST_P(BatchNormLayerOnReplicas, InferenceUsesMovingAverages) {
  const Model model({.momentum = 0.5, .epsilon = 0.25});
  const auto session = SessionOf(model, GetParam());
  ASSERT_TRUE(session->Run({{model.x, Batch()}}, {model.loss}, {model.train}).ok());
  ASSERT_TRUE(session->AssignVariable("batch_norm/gamma", Tensor::Vector<float>({2, 1})).ok());
  ASSERT_TRUE(session->AssignVariable("batch_norm/beta", Tensor::Vector<float>({0, 3})).ok());
  ASSERT_TRUE(
      session->AssignVariable("batch_norm/moving_variance", Tensor::Vector<float>({0, 2})).ok());
  const auto out = session->Run({{model.x, Batch()}}, {model.inference});
  ASSERT_TRUE(out.ok()) << out.status();
  // At this point, the moving means are 0.75 and 0.5.
  const Tensor want = Tensor::Of<float>(
      {4, 2}, {-3, 3 + 3.5f / 1.5f, 1, 3 - 2.5f / 1.5f, 5, 3 + 0.5f / 1.5f, 9, 3 + 0.5f / 1.5f});
  EXPECT_EQ(Difference(want, (*out)[0], {1e-5, 1e-5}), "");
  EXPECT_EQ(Variable(*session, "moving_mean", {0.75f, 0.5f}), "");
}

INSTANTIATE_TEST_SUITE_P(Replicas, BatchNormLayerOnReplicas, testing::Values(1, 2, 3));

TEST(BatchNormLayer, PerReplicaAveragesAreMeansOverReplicas) {
  const Model model({.momentum = 0, .per_replica = true});
  const auto session = SessionOf(model, 2);
  Step step = session->Prepare({model.x}, {model.y}, {model.train}).value();
  ASSERT_TRUE(step.Run({Batch()}).ok());
  EXPECT_EQ(Variable(*session, "moving_mean", {1.5f, 1}), "");
  // The first half's variances are 0.5 and 18; the second half's are 0.5 and 0.
  EXPECT_EQ(Variable(*session, "moving_variance", {0.5f, 9}), "");
}

TEST(BatchNormLayer, TrainingUpdatesOnlyAveragesOfItsModel) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  const Output first = layers::BatchNorm(root, x, nullptr, {.momentum = 0, .name = "first"});
  layers::BatchNorm(root, x, nullptr, {.momentum = 0, .name = "second"});
  const Output loss = ops::Mean(root, ops::Square(root, first), {0, 1});
  const Operation train = GradientDescent({.learning_rate = 0.5}).Minimize(root, loss);
  const auto session = CreateTestSession(graph, {}).value();
  ASSERT_TRUE(session->Run({{x, Batch()}}, {}, {train}).ok());
  EXPECT_EQ(session->ReadVariable("first/moving_mean")->flat<float>()[0], 1.5f);
  EXPECT_EQ(session->ReadVariable("second/moving_mean")->flat<float>()[0], 0);
}

TEST(BatchNormLayer, AcceptsImagesAndActivation) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2, 1, 2});
  const Output y = layers::BatchNorm(root, x, ops::Relu);
  const Tensor images = Tensor::Of<float>({2, 2, 1, 2}, {0, 4, 1, -2, 2, 1, 3, 1});
  const auto session = CreateTestSession(graph, {}).value();
  const auto out = session->Run({{x, images}}, {y});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].shape(), Shape({2, 2, 1, 2}));
  EXPECT_EQ((*out)[0].flat<float>()[0], 0);
  EXPECT_NEAR((*out)[0].flat<float>()[6], 1.5 / std::sqrt(1.251), 1e-5);
}

TEST(BatchNormLayer, UnknownNumberOfChannelsIsRejected) {
  Graph graph;
  const Scope root(&graph);
  layers::BatchNorm(root, ops::Placeholder(root, DT_FLOAT, {-1, -1}));
  EXPECT_THAT(root.status(), IsError(absl::StatusCode::kInvalidArgument, "batch_norm:", "rank 2",
                                     "last dimension"));
}

TEST(ForInference, ReturnsSameOutputIfNothingDiffers) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  const Output y = layers::Dense(root, x, 3);
  const int nodes = graph.num_nodes();
  EXPECT_EQ(ForInference(root, y), y);
  EXPECT_EQ(graph.num_nodes(), nodes);
}

TEST(ForInference, RemovesDropoutAndSharesItsInput) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 2});
  const Output before = ops::Neg(root.WithName("before"), x);
  const Output dropped = layers::Dropout(root, layers::Dropout(root, before, 0.5), 0.5);
  EXPECT_EQ(ForInference(root, dropped), before);
  const Output after = ForInference(root, ops::Exp(root.WithName("after"), dropped));
  EXPECT_EQ(after.node->CallString(), "inference/after = Exp(before)");
  EXPECT_EQ(after.node->input(0), before);
  ASSERT_TRUE(root.ok()) << root.status();
}

}  // namespace
}  // namespace mirrorflow
