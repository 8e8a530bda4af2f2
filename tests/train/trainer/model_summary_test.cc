// SPDX-License-Identifier: Apache-2.0
#include "train/trainer/model_summary.h"

#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "train/layers/layers.h"
#include "train/losses/losses.h"
#include "train/metrics/metrics.h"
#include "train/optimizers/optimizers.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Model BuildModel(const Scope& root) {
  const Output images = ops::Placeholder(root.WithName("images"), DT_FLOAT, {-1, 8, 8, 1});
  const Output labels = ops::Placeholder(root.WithName("labels"), DT_INT32, {-1});
  Output x = layers::Conv2D(root, images, 4, 3, ops::Relu, {.name = "conv"});
  x = layers::BatchNorm(root, x, ops::Relu, {.name = "norm"});
  x = layers::Dropout(root, layers::Flatten(root, layers::MaxPooling2D(root, x)), 0.5);
  const Output logits = layers::Dense(root, x, 100, nullptr, {.name = "logits"});
  const Output loss = losses::SparseSoftmaxCrossEntropy(root, logits, labels);
  return {.inputs = {images, labels},
          .loss = loss,
          .train = Momentum({.learning_rate = 0.1}).Minimize(root, loss),
          .metrics = {{"accuracy", metrics::SparseCategoricalAccuracy(root, logits, labels)}},
          .predictions = logits};
}

TEST(ModelSummaryTest, ShowsLayersShapesAndParameters) {
  Graph graph;
  const Model model = BuildModel(Scope(&graph));
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(ModelSummary(model),
            R"(layer                            output                     parameters
images                           [?,8,8,1]                           0
conv                             [?,6,6,4]                          40
norm                             [?,6,6,4]                          16
MaxPool                          [?,3,3,4]                           0
Reshape                          [?,36]                              0
dropout                          [?,36]                              0
logits                           [?,100]                         3,700

parameters                     3,756  0.02 MB
not trained                        8  0.00 MB
optimizer                      3,748  0.01 MB
)");
}

TEST(ModelSummaryTest, SharedLayerCountsOnce) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root.WithName("x"), DT_FLOAT, {-1, 3});
  const Output y = ops::Placeholder(root.WithName("y"), DT_FLOAT, {-1, 3});
  layers::Shared encoder("encoder",
                         [](const Scope& scope, Output in) { return layers::Dense(scope, in, 2); });
  const Output loss = ops::Mean(root, encoder(root, x) * encoder(root, y));
  EXPECT_EQ(ModelSummary({.inputs = {x, y}, .loss = loss}),
            R"(layer                            output                     parameters
x                                [?,3]                               0
y                                [?,3]                               0
encoder                          [?,2]                               8
encoder_1                        [?,2]                               0
Mul                              [?,2]                               0
Mean                             []                                  0

parameters                         8  0.00 MB
)");
}

TEST(ModelSummaryTest, TrainerAddsMemoryOfAStep) {
  const auto strategy = MirroredStrategy::Create({.num_cpu_replicas = 2, .pin_threads = false});
  ASSERT_TRUE(strategy.ok()) << strategy.status();
  std::unique_ptr<Trainer> trainer;
  {
    Graph graph;
    const auto mirrored = (*strategy)->scope();
    auto created = Trainer::Create(**strategy, graph, BuildModel(Scope(&graph)));
    ASSERT_TRUE(created.ok()) << created.status();
    trainer = *std::move(created);
  }
  const auto summary = trainer->Summary(64);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(*summary, StartsWith("layer "));
  EXPECT_THAT(*summary, HasSubstr("a step of 64 rows"));
  EXPECT_THAT(*summary, HasSubstr(" MB on each of 2 replicas: "));
  EXPECT_THAT(*trainer->Summary(6400), ::testing::Not(HasSubstr(*summary)));
}

}  // namespace
}  // namespace mirrorflow
