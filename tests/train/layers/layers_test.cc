// SPDX-License-Identifier: Apache-2.0
#include "train/layers/layers.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/losses/losses.h"
#include "train/metrics/metrics.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kAny = kUnknownDim;

using Feeds = std::vector<std::pair<Output, Tensor>>;

// Returns the value of `output` on `replicas` replicas.
absl::StatusOr<Tensor> Evaluate(const Graph& graph, const Feeds& feeds, Output output,
                                int replicas = 1) {
  MF_ASSIGN_OR_RETURN(const auto session, CreateTestSession(graph, {.replicas = replicas}));
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> results, session->Run(feeds, {output}));
  return results[0];
}

std::vector<std::string> VariableNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node* node : graph.Nodes()) {
    if (node->op().role == OpRole::kVariable) names.push_back(node->name());
  }
  return names;
}

Tensor Iota(const Shape& shape) {
  Tensor t = *Tensor::Allocate(DT_FLOAT, shape);
  std::iota(t.data<float>(), t.data<float>() + shape.num_elements(), 0.0f);
  return t;
}

class LayersOnReplicasTest : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Replicas, LayersOnReplicasTest, ::testing::Values(1, 2, 3));

TEST_P(LayersOnReplicasTest, DenseAppliesProductBiasAndActivation) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {kAny, 2});
  const layers::DenseOptions options{.kernel_initializer = initializers::Constant(2),
                                     .bias_initializer = initializers::Constant(-5)};
  const Output y = layers::Dense(root, x, 3, ops::Relu, options);
  EXPECT_EQ(root.shape(y), Shape({kAny, 3}));
  const auto got = Evaluate(graph, {{x, Iota({3, 2})}}, y, GetParam());
  ASSERT_TRUE(got.ok()) << got.status();
  const Tensor want = Tensor::Of<float>({3, 3}, {0, 0, 0, 5, 5, 5, 13, 13, 13});
  EXPECT_EQ(Difference(want, *got, {}), "");
}

TEST_P(LayersOnReplicasTest, Conv2DSumsUnderKernelAndAddsBias) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {kAny, 2, 2, 1});
  const layers::Conv2DOptions options{.padding = "SAME",
                                      .kernel_initializer = initializers::Ones(),
                                      .bias_initializer = initializers::Constant(0.5)};
  const Output y = layers::Conv2D(root, x, 1, 3, nullptr, options);
  const auto got = Evaluate(graph, {{x, Iota({3, 2, 2, 1})}}, y, GetParam());
  ASSERT_TRUE(got.ok()) << got.status();
  // The kernel covers the whole image at every position.
  const Tensor want = Tensor::Of<float>(
      {3, 2, 2, 1}, {6.5, 6.5, 6.5, 6.5, 22.5, 22.5, 22.5, 22.5, 38.5, 38.5, 38.5, 38.5});
  EXPECT_EQ(Difference(want, *got, {}), "");
}

TEST_P(LayersOnReplicasTest, MaxPooling2DTakesMaximumOfEachWindow) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {kAny, 2, 4, 1});
  const Output y = layers::MaxPooling2D(root, x);
  const auto got = Evaluate(graph, {{x, Iota({2, 2, 4, 1})}}, y, GetParam());
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(Difference(Tensor::Of<float>({2, 1, 2, 1}, {5, 7, 13, 15}), *got, {}), "");
}

TEST_P(LayersOnReplicasTest, DropoutMaskHasItsRateAndMatchesOneReplica) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {kAny, 500});
  const Output y = layers::Dropout(root, x, 0.2);
  Tensor ones = *Tensor::Allocate(DT_FLOAT, {20, 500});
  std::fill_n(ones.data<float>(), ones.shape().num_elements(), 1.0f);
  const auto got = Evaluate(graph, {{x, ones}}, y, GetParam());
  ASSERT_TRUE(got.ok()) << got.status();
  int64_t zeros = 0;
  for (const float v : got->flat<float>()) {
    zeros += v == 0;
    EXPECT_TRUE(v == 0 || v == 1.25f) << v;
  }
  EXPECT_NEAR(static_cast<double>(zeros) / 10000, 0.2, 0.02);
  const auto one = Evaluate(graph, {{x, ones}}, y);
  EXPECT_TRUE(Tensor::Identical(*one, *got));
}

TEST_P(LayersOnReplicasTest, LossesAreMeansOverGlobalBatch) {
  Graph graph;
  const Scope root(&graph);
  const Output logits = ops::Placeholder(root, DT_FLOAT, {kAny, 3});
  const Output labels = ops::Placeholder(root, DT_INT32, {kAny});
  const Output entropy = losses::SparseSoftmaxCrossEntropy(root, logits, labels);
  const Output squares = losses::MeanSquaredError(root, logits, ops::Square(root, logits));
  EXPECT_EQ(root.shape(entropy), Shape());
  EXPECT_EQ(root.shape(squares), Shape());
  const Tensor values =
      Tensor::Of<float>({5, 3}, {1, 2, 3, 0, 0, 0, -1, 0, 1, 1000, 0, -1000, 2, 2, 2});
  const Feeds feeds = {{logits, values}, {labels, Tensor::Vector<int32_t>({2, 0, 0, 0, 1})}};
  auto got = Evaluate(graph, feeds, entropy, GetParam());
  ASSERT_TRUE(got.ok()) << got.status();
  const double row =
      std::log(1 + std::exp(-1.0) + std::exp(-2.0));  // loss of the row (1, 2, 3) with label 2
  EXPECT_NEAR(got->scalar<float>(), (row + std::log(3.0) + (row + 2) + 0 + std::log(3.0)) / 5,
              1e-6);
  const Tensor small = Tensor::Of<float>({5, 3}, {1, 2, 3, 0, 0, 0, -1, 0, 1, 4, 0, -2, 2, 2, 2});
  got = Evaluate(graph, {{logits, small}}, squares, GetParam());
  ASSERT_TRUE(got.ok()) << got.status();
  // x - x²: 0 2 6, 0 0 0, 2 0 0, 12 0 6, 2 2 2
  EXPECT_NEAR(got->scalar<float>(), (4 + 36 + 4 + 144 + 36 + 3 * 4) / 15.0, 1e-5);
}

TEST_P(LayersOnReplicasTest, AccuracyIsFractionOfGlobalBatch) {
  for (const DataType dtype : {DT_INT32, DT_INT64}) {
    Graph graph;
    const Scope root(&graph);
    const Output logits = ops::Placeholder(
        root, DT_FLOAT, dtype == DT_INT32 ? Shape({kAny, 2}) : Shape::UnknownRank());
    const Output labels = ops::Placeholder(root, dtype, {kAny});
    const Output accuracy = metrics::Accuracy(root, logits, labels);
    const Tensor values = Tensor::Of<float>({5, 2}, {1, 2, 2, 1, 3, 3, 0, 9, -1, -2});
    const Feeds feeds = {{logits, values},
                         {labels, dtype == DT_INT32 ? Tensor::Vector<int32_t>({1, 0, 0, 0, 1})
                                                    : Tensor::Vector<int64_t>({1, 0, 0, 0, 1})}};
    const auto got = Evaluate(graph, feeds, accuracy, GetParam());
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_NEAR(got->scalar<float>(), 3 / 5.0, 1e-6);  // if logits are equal, the first one wins
  }
}

TEST(LayersTest, ShapesFollowPaddingAndStrides) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {kAny, 28, 27, 3});
  const auto conv = [&](int64_t size, const layers::Conv2DOptions& options) {
    return root.shape(layers::Conv2D(root, x, 8, size, ops::Relu, options));
  };
  EXPECT_EQ(conv(3, {}), Shape({kAny, 26, 25, 8}));
  EXPECT_EQ(conv(3, {.padding = "SAME"}), Shape({kAny, 28, 27, 8}));
  EXPECT_EQ(conv(5, {.strides = 2}), Shape({kAny, 12, 12, 8}));
  EXPECT_EQ(conv(5, {.strides = 2, .padding = "SAME"}), Shape({kAny, 14, 14, 8}));
  const auto pool = [&](int64_t size, const layers::MaxPooling2DOptions& options) {
    return root.shape(layers::MaxPooling2D(root, x, size, options));
  };
  EXPECT_EQ(pool(2, {}), Shape({kAny, 14, 13, 3}));
  EXPECT_EQ(pool(2, {.padding = "SAME"}), Shape({kAny, 14, 14, 3}));
  EXPECT_EQ(pool(3, {.strides = 1}), Shape({kAny, 26, 25, 3}));
  EXPECT_EQ(root.shape(layers::Flatten(root, x)), Shape({kAny, 28 * 27 * 3}));
  EXPECT_EQ(root.shape(layers::Dense(root, layers::Flatten(root, x), 10)), Shape({kAny, 10}));
  EXPECT_TRUE(graph.status().ok()) << graph.status();
}

TEST(LayersTest, VariablesAreNamedAfterLayerAndBiasIsOptional) {
  Graph graph;
  const Scope root(&graph);
  const Output images = ops::Placeholder(root, DT_FLOAT, {kAny, 4, 4, 1});
  Output x = layers::Conv2D(root, images, 2, 3);
  x = layers::Conv2D(root, x, 2, 1, nullptr, {.use_bias = false});
  x = layers::Dense(root, layers::Flatten(root, x), 5, nullptr, {.name = "head"});
  layers::Dense(root, x, 5, nullptr, {.use_bias = false});
  EXPECT_THAT(VariableNames(graph), ElementsAre("conv2d/kernel", "conv2d/bias", "conv2d_1/kernel",
                                                "head/kernel", "head/bias", "dense/kernel"));
}

TEST(LayersTest, DropoutWithRateZeroReturnsInput) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {3});
  EXPECT_EQ(layers::Dropout(root, x, 0), x);
}

// Building this layer on placeholders must fail, with an error at `place` that contains `token`.
struct Mistake {
  std::function<Output(const Scope&)> build;
  const char* place;
  const char* token = "";  // set if the same place has several errors
};

TEST(LayersTest, InvalidArgumentsAreReportedByGraphStatus) {
  const auto x = [](const Scope& s, const Shape& shape) {
    return ops::Placeholder(s.WithName("x"), DT_FLOAT, shape);
  };
  const Shape image({kAny, 8, 8, 2});
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Mistake> mistakes = {
      {[&](const Scope& s) {
         return layers::Dense(s, x(s, {kAny, kAny}), 3);
       },
       "dense:", "got shape [?,?]"},
      {[&](const Scope& s) { return layers::Dense(s, x(s, image), 3); }, "got shape [?,8,8,2]"},
      {[&](const Scope& s) {
         return layers::Dense(s, x(s, {kAny, 4}), 0);
       },
       "dense: units", "got 0"},
      {[&](const Scope& s) {
         return layers::Dense(s, x(s, {kAny, 4}), -3);
       },
       "got -3"},
      {[&](const Scope& s) {
         return layers::Conv2D(s, x(s, {kAny, 4}), 3, 3);
       },
       "conv2d:", "rank 4"},
      {[&](const Scope& s) { return layers::Conv2D(s, x(s, image), 0, 3); },
       "conv2d: filters out of range"},
      {[&](const Scope& s) { return layers::Conv2D(s, x(s, image), 4, 0); },
       "conv2d: kernel_size out of range"},
      {[&](const Scope& s) { return layers::Conv2D(s, x(s, image), 4, 10); }, "Conv2D(conv2d/"},
      {[&](const Scope& s) {
         return layers::Conv2D(s, x(s, image), 4, 3, nullptr, {.strides = 0});
       },
       "Conv2D(conv2d/"},
      {[&](const Scope& s) {
         return layers::Conv2D(s, x(s, image), 4, 3, nullptr, {.padding = "FULL"});
       },
       "Conv2D(conv2d/"},
      {[&](const Scope& s) { return layers::MaxPooling2D(s, x(s, image), 0); }, "MaxPool"},
      {[&](const Scope& s) { return layers::MaxPooling2D(s, x(s, image), 2, {.strides = -1}); },
       "MaxPool"},
      {[&](const Scope& s) {
         return layers::Flatten(s, x(s, {kAny, kAny, 3}));
       },
       "flatten:", "known dimensions"},
      {[&](const Scope& s) { return layers::Flatten(s, x(s, Shape::UnknownRank())); }, "flatten"},
      {[&](const Scope& s) { return layers::Dropout(s, x(s, {4}), 1); }, "rate", "got 1"},
      {[&](const Scope& s) { return layers::Dropout(s, x(s, {4}), -0.1); }, "got -0.1"},
      {[&](const Scope& s) { return layers::Dropout(s, x(s, {4}), nan); }, "got nan"},
      {[&](const Scope& s) {
         return losses::SparseSoftmaxCrossEntropy(s, x(s, {kAny, 3}), x(s, {kAny}));
       },
       "SparseSoftmaxCrossEntropyWithLogits(loss/"},
      {[&](const Scope& s) {
         return losses::MeanSquaredError(s, x(s, {kAny, 3}), x(s, {kAny, 2}));
       },
       "mean_squared_error: labels"},
  };
  for (size_t i = 0; i < mistakes.size(); ++i) {
    Graph graph;
    EXPECT_FALSE(mistakes[i].build(Scope(&graph)).valid()) << i;
    EXPECT_THAT(graph.status(),
                IsError(absl::StatusCode::kInvalidArgument, mistakes[i].place, mistakes[i].token))
        << i;
  }
}

}  // namespace
}  // namespace mirrorflow
