// SPDX-License-Identifier: Apache-2.0
//
// Tests what keras_sequences_test does not cover: initial values, returned states and rotary
// positions.
#include <cmath>
#include <complex>

#include "framework/core/status.h"
#include "gtest/gtest.h"
#include "ops/binary.h"
#include "ops/control.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/layers/layers.h"

namespace mirrorflow {
namespace {

constexpr Tolerance kTolerance{1e-5, 1e-5};

using Feeds = std::vector<std::pair<Output, Tensor>>;

absl::StatusOr<std::vector<Tensor>> Evaluate(const Graph& graph, const Feeds& feeds,
                                             const std::vector<Output>& fetches, int replicas) {
  MF_ASSIGN_OR_RETURN(const auto session, CreateTestSession(graph, {.replicas = replicas}));
  return session->Run(feeds, fetches);
}

TEST(RecurrentLayers, ForgetGateBeginsWithBiasOfOne) {
  for (const bool unit_forget_bias : {true, false}) {
    Graph graph;
    const Scope root(&graph);
    const Output x = ops::Placeholder(root, DT_FLOAT, {kUnknownDim, 3, 2});
    layers::LSTM(root, x, 2, {.unit_forget_bias = unit_forget_bias});
    const auto session = CreateTestSession(graph, {});
    ASSERT_TRUE(session.ok()) << session.status();
    const float forget = unit_forget_bias ? 1 : 0;
    EXPECT_EQ(Difference(Tensor::Vector<float>({0, 0, forget, forget, 0, 0, 0, 0}),
                         *(*session)->ReadVariable("lstm/lstm_cell/bias"), {}),
              "");
  }
}

TEST(RecurrentLayers, ReturnedStatesContinueASequence) {
  Random random(1);
  const Tensor values = RandomTensor(DT_FLOAT, {7, 6, 2}, &random);
  Graph graph;
  const Scope root(&graph);
  const Output whole = ops::Placeholder(root, DT_FLOAT, {kUnknownDim, 6, 2});
  const Output start = ops::Placeholder(root, DT_FLOAT, {kUnknownDim, 4, 2});
  const Output end = ops::Placeholder(root, DT_FLOAT, {kUnknownDim, 2, 2});
  const auto half = initializers::Constant(0.5);
  const auto lstm = [&](Output x, std::vector<Output> state) {
    return layers::LSTMWithState(root, x, 3,
                                 {.kernel_initializer = half,
                                  .recurrent_initializer = half,
                                  .initial_state = std::move(state)});
  };
  const Output want = lstm(whole, {}).y;
  const layers::RecurrentOutputs first = lstm(start, {});
  const layers::RecurrentOutputs second = lstm(end, first.states);
  for (const int replicas : {1, 3}) {
    const auto got = Evaluate(
        graph,
        {{whole, values}, {start, SliceAlong(values, 1, 0, 4)}, {end, SliceAlong(values, 1, 4, 6)}},
        {want, second.y, first.y, first.states[0]}, replicas);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(Difference((*got)[0], (*got)[1], kTolerance), "");
    EXPECT_EQ(Difference((*got)[2], (*got)[3], {}), "");
  }
}

// Applies rotary positions to x [batch, n, heads, d]; each pair of elements is rotated as a complex
// number.
Tensor Rotated(const Tensor& x, double wavelength, double scaling, bool interleaved) {
  Tensor y = *x.Clone();
  const int64_t batch = x.shape().dim(0), n = x.shape().dim(1), heads = x.shape().dim(2);
  const int64_t d = x.shape().dim(3);
  for (int64_t row = 0; row < batch * n * heads; ++row) {
    const double position = static_cast<double>(row / heads % n) / scaling;
    for (int64_t i = 0; i < d / 2; ++i) {
      float* const first = y.data<float>() + row * d + (interleaved ? 2 * i : i);
      float* const second = interleaved ? first + 1 : first + d / 2;
      const double angle = position * std::pow(wavelength, -2.0 * static_cast<double>(i) / d);
      const auto rotated = std::complex<double>(*first, *second) * std::polar(1.0, angle);
      *first = static_cast<float>(rotated.real());
      *second = static_cast<float>(rotated.imag());
    }
  }
  return y;
}

TEST(RotaryEmbedding, RotatesPairsByPosition) {
  Random random(1);
  const Tensor values = RandomTensor(DT_FLOAT, {7, 5, 2, 6}, &random);
  for (const bool interleaved : {false, true}) {
    for (const bool heads : {true, false}) {
      Graph graph;
      const Scope root(&graph);
      const Shape shape = heads ? Shape({7, 5, 2, 6}) : Shape({14, 5, 6});
      Shape any = shape;
      any.set_dim(0, kUnknownDim);
      const Output x = ops::Placeholder(root, DT_FLOAT, any);
      const Output y = layers::RotaryEmbedding(
          root, x, {.max_wavelength = 50, .scaling_factor = 2, .interleaved = interleaved});
      EXPECT_EQ(root.shape(y), any);
      const Tensor rows = heads ? values : RandomTensor(DT_FLOAT, {14, 5, 1, 6}, &random);
      const Tensor want = Rotated(rows, 50, 2, interleaved);
      for (const int replicas : {1, 3}) {
        const auto got = Evaluate(graph, {{x, rows.Reshaped(shape)}}, {y}, replicas);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(Difference(want.Reshaped(shape), (*got)[0], kTolerance), "");
      }
    }
  }
}

// All weights are 0.5, so at position i every element of q and k is s[i], half the sum of x[i]. A
// pair adds 2 s[i] s[j] cos((i - j) * angle) to the product of q and k.
TEST(MultiHeadAttention, RotaryPositionsMakeWeightsDependOnDistance) {
  constexpr int kRows = 7, kLength = 5;
  Random random(1);
  const Tensor values = RandomTensor(DT_FLOAT, {kRows, kLength, 6}, &random);
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT, {kUnknownDim, kLength, 6});
  const Output y = layers::MultiHeadAttention(
      root, x, x, 1, 4,
      {.rotary_wavelength = 25, .kernel_initializer = initializers::Constant(0.5)});
  Tensor want = *Tensor::Allocate(DT_FLOAT, values.shape());
  for (int row = 0; row < kRows; ++row) {
    double s[kLength] = {};
    for (int i = 0; i < kLength * 6; ++i) {
      s[i / 6] += 0.5 * values.flat<float>()[row * kLength * 6 + i];
    }
    for (int i = 0; i < kLength; ++i) {
      double sum = 0, weighted = 0;
      for (int j = 0; j < kLength; ++j) {
        const double turned = std::cos(i - j) + std::cos((i - j) / 5.0);  // 25^(2/4) = 5
        const double weight = std::exp(2 * s[i] * s[j] * turned / 2);     // sqrt(key_dim) = 2
        sum += weight;
        weighted += weight * s[j];
      }
      float* const out = want.data<float>() + (row * kLength + i) * 6;
      std::fill_n(out, 6, static_cast<float>(4 * 0.5 * weighted / sum));
    }
  }
  for (const int replicas : {1, 3}) {
    const auto got = Evaluate(graph, {{x, values}}, {y}, replicas);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(Difference(want, (*got)[0], kTolerance), "");
  }
}

}  // namespace
}  // namespace mirrorflow
