// SPDX-License-Identifier: Apache-2.0
//
// Tests that a trained model gives the same results after it is saved and loaded.
#include "tools/models/classifiers.h"

#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mirrorflow_debug.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

struct Trained {
  std::unique_ptr<OneDeviceStrategy> strategy = OneDeviceStrategy::Create().value();
  Graph graph;
  Classifier model;
  std::unique_ptr<Session> session;
};

absl::StatusOr<std::vector<Tensor>> Batch(const Classifier& model, int64_t rows) {
  Random random(9);
  Shape shape = model.images.node->attr<Shape>("shape");
  shape.set_dim(0, rows);
  MF_ASSIGN_OR_RETURN(Tensor labels, Tensor::Allocate(DT_INT32, Shape({rows})));
  for (int32_t& label : labels.flat<int32_t>()) label = static_cast<int32_t>(random.Below(10));
  return std::vector<Tensor>{RandomTensor(DT_FLOAT, shape, &random), labels};
}

absl::StatusOr<std::unique_ptr<Trained>> Train(absl::string_view name) {
  auto t = std::make_unique<Trained>();
  const Scope root(&t->graph);
  const auto scope = t->strategy->scope();
  MF_ASSIGN_OR_RETURN(t->model, BuildClassifier(root, name));
  const Operation train = Momentum({.learning_rate = 0.05}).Minimize(root, t->model.loss);
  MF_ASSIGN_OR_RETURN(t->session, t->strategy->NewSession(t->graph));
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> batch, Batch(t->model, 16));
  MF_ASSIGN_OR_RETURN(
      Step step, t->session->Prepare({t->model.images, t->model.labels}, {t->model.loss}, {train}));
  for (int i = 0; i < 3; ++i) MF_RETURN_IF_ERROR(step.Run(batch).status());
  return t;
}

class Models : public testing::TestWithParam<const char*> {};

TEST_P(Models, GiveSameBitsAfterSaveAndLoad) {
  const auto t = Train(GetParam());
  ASSERT_TRUE(t.ok()) << t.status();
  const Tensor images = Batch((*t)->model, 7)->at(0);
  const auto want = (*t)->session->Run({{(*t)->model.images, images}}, {(*t)->model.logits});
  ASSERT_TRUE(want.ok()) << want.status();

  const std::string graph_path = testing::TempDir() + "/graph.pb";
  const std::string variables_path = testing::TempDir() + "/variables.safetensors";
  ASSERT_TRUE(WriteGraphFile((*t)->graph, graph_path).ok());
  ASSERT_TRUE(SaveVariables(*(*t)->session, variables_path).ok());
  const auto loaded = ReadGraphFile(graph_path, AllOps());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto strategy = OneDeviceStrategy::Create().value();
  const auto session = strategy->NewSession(*loaded);
  ASSERT_TRUE(session.ok()) << session.status();
  const Output x = loaded->FindNode("images")->output(0);
  const Output logits = loaded->FindNode("logits")->output(0);
  const auto untrained = (*session)->Run({{x, images}}, {logits});
  ASSERT_TRUE(untrained.ok()) << untrained.status();
  EXPECT_FALSE(Tensor::Identical((*want)[0], (*untrained)[0]));
  ASSERT_TRUE(LoadVariables(variables_path, **session).ok());
  const auto got = (*session)->Run({{x, images}}, {logits});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(Tensor::Identical((*want)[0], (*got)[0]));
}

INSTANTIATE_TEST_SUITE_P(All, Models, testing::Values("mlp", "cnn", "resnet"));

TEST(BuildResNet50, MatchesShapesAndParametersOfPaper) {
  Graph graph;
  const Scope root(&graph);
  const Classifier model = BuildResNet50(root);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(root.shape(model.images), Shape({-1, 224, 224, 3}));
  EXPECT_EQ(root.shape(model.logits), Shape({-1, 1000}));
  int64_t parameters = 0;
  for (const Output& variable : TrainableVariables(graph)) {
    parameters += variable.node->attr<Shape>("shape").num_elements();
  }
  EXPECT_EQ(parameters, 25557032);
}

class ResNet50 : public testing::TestWithParam<DataType> {};

TEST_P(ResNet50, LearnsOneBatch) {
  OneDeviceStrategy::Options options{.seed = 5};
  options.compile.compute_dtype = GetParam();
  const auto strategy = OneDeviceStrategy::Create(options).value();
  Graph graph;
  const Scope root(&graph);
  const Classifier model =
      BuildResNet50(root, {.blocks = {1, 2}, .width = 4, .pixels = 32, .classes = 10});
  const Operation train = Momentum({.learning_rate = 0.01}).Minimize(root, model.loss);
  const auto session = strategy->NewSession(graph);
  ASSERT_TRUE(session.ok()) << session.status();
  auto step = (*session)->Prepare({model.images, model.labels}, {model.loss}, {train});
  ASSERT_TRUE(step.ok()) << step.status();
  const auto batch = Batch(model, 4);
  ASSERT_TRUE(batch.ok()) << batch.status();
  std::vector<float> losses;
  for (int i = 0; i < 5; ++i) {
    const auto out = step->Run(*batch);
    ASSERT_TRUE(out.ok()) << out.status();
    losses.push_back((*out)[0].scalar<float>());
  }
  EXPECT_LT(losses.back(), losses.front());
  const auto logits = (*session)->Run({{model.images, (*batch)[0]}}, {model.logits});
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_EQ((*logits)[0].shape(), Shape({4, 10}));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ResNet50, testing::Values(DT_FLOAT, DT_BFLOAT16, DT_HALF));

TEST(BuildClassifier, UnknownNameIsRejected) {
  Graph graph;
  EXPECT_THAT(BuildClassifier(Scope(&graph), "rnn").status(),
              IsError(absl::StatusCode::kInvalidArgument, "mlp, cnn or resnet", "got 'rnn'"));
}

}  // namespace
}  // namespace mirrorflow
