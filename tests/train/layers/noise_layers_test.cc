// SPDX-License-Identifier: Apache-2.0
//
// Tests layers that draw random numbers, in training and in inference.
#include <cmath>
#include <functional>
#include <set>

#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "ops/control.h"
#include "ops/reduction.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/inference.h"
#include "train/layers/layers.h"

namespace mirrorflow {
namespace {

using Layer = std::function<Output(const Scope&, Output)>;

struct Results {
  Tensor training, inference;
};

// Applies the layer to ones of this shape; the batch size is unknown in the graph.
absl::StatusOr<Results> OfOnes(const Layer& layer, const Shape& shape, int replicas) {
  Graph graph;
  const Scope root(&graph);
  Shape any = shape;
  any.set_dim(0, kUnknownDim);
  const Output x = ops::Placeholder(root, DT_FLOAT, any);
  const Output y = layer(root, x);
  const Output inference = ForInference(root, y);
  MF_ASSIGN_OR_RETURN(const auto session, CreateTestSession(graph, {.replicas = replicas}));
  Tensor ones = *Tensor::Allocate(DT_FLOAT, shape);
  std::fill_n(ones.data<float>(), shape.num_elements(), 1.0f);
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> got, session->Run({{x, ones}}, {y, inference}));
  return Results{got[0], got[1]};
}

class NoiseLayersTest : public ::testing::TestWithParam<int> {
 protected:
  // Returns the result in training. Expects one replica to give the same result, and inference to
  // give ones.
  Tensor Training(const Layer& layer, const Shape& shape) {
    const auto got = OfOnes(layer, shape, GetParam()), alone = OfOnes(layer, shape, 1);
    if (!got.ok() || !alone.ok()) {
      ADD_FAILURE() << got.status() << alone.status();
      return *Tensor::Allocate(DT_FLOAT, shape);
    }
    EXPECT_TRUE(Tensor::Identical(alone->training, got->training));
    for (const float v : got->inference.flat<float>()) EXPECT_EQ(v, 1);
    return got->training;
  }
};

INSTANTIATE_TEST_SUITE_P(Replicas, NoiseLayersTest, ::testing::Values(1, 3));

// Expects each element to be 1 + deviation * standard normal noise.
void ExpectNormal(const Tensor& y, double deviation) {
  double mean = 0, square = 0;
  const auto n = static_cast<double>(y.shape().num_elements());
  for (const float v : y.flat<float>()) {
    mean += v / n;
    square += (v - 1.0) * (v - 1.0) / n;
  }
  EXPECT_NEAR(mean, 1, 0.03 * deviation);
  EXPECT_NEAR(std::sqrt(square), deviation, 0.03 * deviation);
}

TEST_P(NoiseLayersTest, GaussianNoiseHasTheGivenDeviation) {
  const auto layer = [](const Scope& s, Output x) { return layers::GaussianNoise(s, x, 0.25); };
  ExpectNormal(Training(layer, {7, 4000}), 0.25);
}

TEST_P(NoiseLayersTest, GaussianDropoutDeviationFollowsFromRate) {
  const auto layer = [](const Scope& s, Output x) { return layers::GaussianDropout(s, x, 0.2); };
  ExpectNormal(Training(layer, {7, 4000}), 0.5);
}

// Expects each channel of each example to be all 0 (with probability 0.2) or all 1.25.
void ExpectWholeChannels(const Tensor& y) {
  const int64_t channels = y.shape().dim(y.shape().rank() - 1), examples = y.shape().dim(0);
  const int64_t pixels = y.shape().num_elements() / examples / channels;
  const absl::Span<const float> values = y.flat<float>();
  double zeros = 0;
  for (int64_t n = 0; n < examples; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      const float first = values[n * pixels * channels + c];
      EXPECT_TRUE(first == 0 || first == 1.25f) << first;
      zeros += first == 0;
      for (int64_t p = 1; p < pixels; ++p) {
        EXPECT_EQ(values[(n * pixels + p) * channels + c], first);
      }
    }
  }
  EXPECT_NEAR(zeros / static_cast<double>(examples * channels), 0.2, 0.03);
}

TEST_P(NoiseLayersTest, SpatialDropoutDropsWholeChannels) {
  ExpectWholeChannels(Training(
      [](const Scope& s, Output x) { return layers::SpatialDropout1D(s, x, 0.2); }, {7, 3, 500}));
  ExpectWholeChannels(
      Training([](const Scope& s, Output x) { return layers::SpatialDropout2D(s, x, 0.2); },
               {7, 2, 2, 500}));
  ExpectWholeChannels(
      Training([](const Scope& s, Output x) { return layers::SpatialDropout3D(s, x, 0.2); },
               {7, 1, 2, 2, 500}));
}

// This layer returns its input, so the result is the dropout factors. They must be the same in a
// whole channel.
TEST_P(NoiseLayersTest, InputDropoutIsTheSameInAllSteps) {
  ExpectWholeChannels(Training(
      [](const Scope& s, Output x) {
        return layers::SimpleRNN(s, x, 500,
                                 {.activation = nullptr,
                                  .kernel_initializer = initializers::Identity(),
                                  .recurrent_initializer = initializers::Zeros(),
                                  .dropout = 0.2,
                                  .return_sequences = true});
      },
      {7, 3, 500}));
}

// This layer returns its state, multiplied by the same factor in each step.
TEST_P(NoiseLayersTest, RecurrentDropoutIsTheSameInAllSteps) {
  constexpr int64_t kUnits = 500, kSteps = 3;
  const Tensor y = Training(
      [](const Scope& s, Output x) {
        const Output first = ops::Max(s, x, {1});  // ones
        return layers::SimpleRNN(s, x, kUnits,
                                 {.activation = nullptr,
                                  .kernel_initializer = initializers::Zeros(),
                                  .recurrent_initializer = initializers::Identity(),
                                  .recurrent_dropout = 0.2,
                                  .return_sequences = true,
                                  .initial_state = {first}});
      },
      {7, kSteps, kUnits});
  double zeros = 0;
  for (int64_t n = 0; n < 7; ++n) {
    for (int64_t unit = 0; unit < kUnits; ++unit) {
      const float* element = y.data<float>() + n * kSteps * kUnits + unit;
      const float factor = element[0];
      EXPECT_TRUE(factor == 0 || factor == 1.25f) << factor;
      zeros += factor == 0;
      EXPECT_EQ(element[kUnits], factor * factor);
      EXPECT_EQ(element[2 * kUnits], factor * factor * factor);
    }
  }
  EXPECT_NEAR(zeros / (7 * kUnits), 0.2, 0.03);
}

// If all values are 1, attention returns 1 unless it drops weights.
TEST_P(NoiseLayersTest, AttentionDropsWeightsOnlyInTraining) {
  const auto attention = [](double dropout) {
    return [=](const Scope& s, Output x) {
      return layers::MultiHeadAttention(
          s, x, x, 1, 4, {.dropout = dropout, .kernel_initializer = initializers::Constant(0.25)});
    };
  };
  const Tensor y = Training(attention(0.5), {7, 64, 4});
  double mean = 0;
  std::set<float> different;
  for (const float v : y.flat<float>()) {
    mean += v / static_cast<double>(y.shape().num_elements());
    different.insert(v);
  }
  EXPECT_NEAR(mean, 1, 0.05);
  EXPECT_GT(different.size(), 10u);
  const Tensor without = Training(attention(0), {7, 64, 4});
  for (const float v : without.flat<float>()) EXPECT_NEAR(v, 1, 1e-5);
}

TEST(NoiseLayers, ZeroRatesReturnInput) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {kUnknownDim, 4, 3});
  EXPECT_EQ(layers::GaussianNoise(root, x, 0), x);
  EXPECT_EQ(layers::GaussianDropout(root, x, 0), x);
  EXPECT_EQ(layers::SpatialDropout1D(root, x, 0), x);
}

}  // namespace
}  // namespace mirrorflow
