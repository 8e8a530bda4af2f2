// SPDX-License-Identifier: Apache-2.0
#include "train/initializers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"
#include "train/formats/npz.h"
#include "train/variable.h"

namespace mirrorflow {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

using initializers::Distribution;
using initializers::Fan;

// The standard deviation of a standard normal distribution that is truncated at ±2.
constexpr double kTruncated = 0.87962566;

// Returns the initial value of a variable of this shape.
Tensor Initial(const Initializer& initializer, const Shape& shape, DataType dtype = DT_FLOAT,
               uint64_t seed = 1) {
  Graph graph;
  CreateVariable(Scope(&graph), "v", shape, initializer, dtype);
  TestSessionOptions options{.replicas = 2};
  options.session.seed = seed;
  const auto session = CreateTestSession(graph, options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *(*session)->ReadVariable("v");
}

struct Moments {
  double mean = 0, deviation = 0, smallest = 1e9, largest = -1e9;
};

Moments MomentsOf(const Tensor& t) {
  Moments m;
  const absl::Span<const float> values = t.flat<float>();
  for (const float v : values) {
    m.mean += v / static_cast<double>(values.size());
    m.smallest = std::min<double>(m.smallest, v);
    m.largest = std::max<double>(m.largest, v);
  }
  for (const float v : values) m.deviation += (v - m.mean) * (v - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(values.size()));
  return m;
}

struct Expected {
  Initializer initializer;
  Shape shape;
  double mean, deviation;
  double reach;  // largest distance from the mean
};

TEST(InitializersTest, RandomInitializersHaveKerasMomentsAndBounds) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Shape weight({100, 80}), filter({3, 5, 8, 40}), vector({5000});
  const auto normal = [](Initializer initializer, const Shape& shape, double variance) {
    const double deviation = std::sqrt(variance);
    return Expected{std::move(initializer), shape, 0, deviation, 2 * deviation / kTruncated};
  };
  const auto uniform = [](Initializer initializer, const Shape& shape, double variance) {
    const double limit = std::sqrt(3 * variance);
    return Expected{std::move(initializer), shape, 0, std::sqrt(variance), limit};
  };
  const std::vector<Expected> cases = {
      {initializers::RandomNormal(), weight, 0, 0.05, kInfinity},
      {initializers::RandomNormal(2, -1), weight, -1, 2, kInfinity},
      {initializers::TruncatedNormal(), weight, 0, 0.05 * kTruncated, 0.1},
      {initializers::TruncatedNormal(2, 3), weight, 3, 2 * kTruncated, 4},
      {initializers::RandomUniform(), weight, 0, 0.05 / std::sqrt(3.0), 0.05},
      {initializers::RandomUniform(1, 4), weight, 2.5, 1.5 / std::sqrt(3.0), 1.5},
      normal(initializers::VarianceScaling(), weight, 1.0 / 100),
      normal(initializers::VarianceScaling({.scale = 3, .mode = Fan::kOut}), weight, 3.0 / 80),
      {initializers::VarianceScaling({.distribution = Distribution::kUntruncatedNormal}), weight, 0,
       0.1, kInfinity},
      // In this filter, each output depends on 3 * 5 * 8 inputs, and each input affects 3 * 5 * 40
      // outputs.
      normal(initializers::GlorotNormal(), weight, 2.0 / 180),
      normal(initializers::GlorotNormal(), filter, 2.0 / (15 * 48)),
      uniform(initializers::GlorotUniform(), weight, 2.0 / 180),
      uniform(initializers::GlorotUniform(), filter, 2.0 / (15 * 48)),
      uniform(initializers::GlorotUniform(), vector, 1.0 / 5000),
      normal(initializers::HeNormal(), weight, 2.0 / 100),
      normal(initializers::HeNormal(), filter, 2.0 / (15 * 8)),
      uniform(initializers::HeUniform(), weight, 2.0 / 100),
      uniform(initializers::HeUniform(), filter, 2.0 / (15 * 8)),
      normal(initializers::LecunNormal(), filter, 1.0 / (15 * 8)),
      uniform(initializers::LecunUniform(), filter, 1.0 / (15 * 8)),
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const Expected& want = cases[i];
    const Moments m = MomentsOf(Initial(want.initializer, want.shape));
    EXPECT_NEAR(m.mean, want.mean, 0.05 * want.deviation) << i;
    EXPECT_NEAR(m.deviation, want.deviation, 0.03 * want.deviation) << i;
    EXPECT_LE(m.largest, want.mean + want.reach * (1 + 1e-6)) << i;
    EXPECT_GE(m.smallest, want.mean - want.reach * (1 + 1e-6)) << i;
    if (std::isinf(want.reach)) continue;
    EXPECT_GE(m.largest, want.mean + 0.95 * want.reach) << i;
    EXPECT_LE(m.smallest, want.mean - 0.95 * want.reach) << i;
  }
}

// The initializers in make_initializer_moments.py.
struct KerasInitializer {
  Initializer initializer;
  Shape shape;
};

std::map<std::string, KerasInitializer> KerasInitializers() {
  using namespace initializers;  // NOLINT: a table
  const Shape weight({100, 80}), filter({3, 5, 8, 40}), vector({5000});
  return {
      {"random_normal", {RandomNormal(), weight}},
      {"random_normal_moved", {RandomNormal(2, -1), weight}},
      {"truncated_normal", {TruncatedNormal(), weight}},
      {"truncated_normal_moved", {TruncatedNormal(2, 3), weight}},
      {"random_uniform", {RandomUniform(), weight}},
      {"random_uniform_moved", {RandomUniform(1, 4), weight}},
      {"variance_scaling", {VarianceScaling(), weight}},
      {"variance_scaling_out", {VarianceScaling({.scale = 3, .mode = Fan::kOut}), weight}},
      {"variance_scaling_untruncated",
       {VarianceScaling({.distribution = Distribution::kUntruncatedNormal}), weight}},
      {"glorot_normal", {GlorotNormal(), weight}},
      {"glorot_normal_filter", {GlorotNormal(), filter}},
      {"glorot_uniform", {GlorotUniform(), weight}},
      {"glorot_uniform_filter", {GlorotUniform(), filter}},
      {"glorot_uniform_vector", {GlorotUniform(), vector}},
      {"he_normal", {HeNormal(), weight}},
      {"he_normal_filter", {HeNormal(), filter}},
      {"he_uniform", {HeUniform(), weight}},
      {"he_uniform_filter", {HeUniform(), filter}},
      {"lecun_normal_filter", {LecunNormal(), filter}},
      {"lecun_uniform_filter", {LecunUniform(), filter}},
      {"orthogonal", {Orthogonal(0.5), weight}},
      {"orthogonal_filter", {Orthogonal(), filter}},
  };
}

TEST(InitializersTest, MomentsMatchStoredKerasMoments) {
  const auto stored = ReadNpz("tests/references/initializers/keras.npz");
  ASSERT_TRUE(stored.ok()) << stored.status();
  const std::map<std::string, KerasInitializer> initializers = KerasInitializers();
  ASSERT_EQ(stored->size(), initializers.size());
  for (const auto& [name, want] : *stored) {
    ASSERT_EQ(initializers.count(name), 1u) << name;
    const KerasInitializer& in = initializers.at(name);
    const double mean = want.flat<float>()[0], deviation = want.flat<float>()[1];
    const double least = want.flat<float>()[2], largest = want.flat<float>()[3];
    const Moments m = MomentsOf(Initial(in.initializer, in.shape));
    EXPECT_NEAR(m.mean, mean, 0.05 * deviation) << name;
    EXPECT_NEAR(m.deviation, deviation, 0.03 * deviation) << name;
    // Keras drew a hundred times as many values, so its range is at least as wide.
    EXPECT_GE(m.smallest, least - 1e-4 * (largest - least)) << name;
    EXPECT_LE(m.largest, largest + 1e-4 * (largest - least)) << name;
  }
}

TEST(InitializersTest, ConstantInitializersFillWithTheirValue) {
  const auto expect = [](const Tensor& want, const Tensor& got) {
    EXPECT_EQ(Difference(want, got, {}), "");
  };
  expect(Tensor::Vector<float>({0, 0}), Initial(initializers::Zeros(), {2}));
  expect(Tensor::Vector<float>({1, 1}), Initial(initializers::Ones(), {2}));
  expect(Tensor::Scalar<float>(-2.5), Initial(initializers::Constant(-2.5), {}));
  expect(Tensor::Of<float>({2, 2}, {1, 0, 0, 1}), Initial(initializers::Identity(), {2, 2}));
  expect(Tensor::Of<float>({3, 2}, {2, 0, 0, 2, 0, 0}), Initial(initializers::Identity(2), {3, 2}));
  expect(Tensor::Of<double>({1, 2}, {1, 0}), Initial(initializers::Identity(), {1, 2}, DT_DOUBLE));
}

TEST(InitializersTest, SeedDeterminesValues) {
  for (const Initializer& initializer :
       {initializers::GlorotUniform(), initializers::Orthogonal()}) {
    const Tensor one = Initial(initializer, {4, 4}, DT_FLOAT, 1);
    EXPECT_TRUE(Tensor::Identical(one, Initial(initializer, {4, 4}, DT_FLOAT, 1)));
    EXPECT_FALSE(Tensor::Identical(one, Initial(initializer, {4, 4}, DT_FLOAT, 2)));
  }
}

// Returns the columns of `t` or, if there are fewer of them, its rows.
std::vector<std::vector<double>> Vectors(const Tensor& t) {
  const int64_t columns = t.shape().dim(t.shape().rank() - 1), rows = t.num_elements() / columns;
  const bool by_column = columns <= rows;
  std::vector<std::vector<double>> vectors(std::min(rows, columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      vectors[by_column ? c : r].push_back(t.flat<float>()[r * columns + c]);
    }
  }
  return vectors;
}

TEST(InitializersTest, OrthogonalHasOrthonormalColumnsOrRows) {
  for (const Shape& shape : {Shape({40, 40}), Shape({50, 7}), Shape({7, 50}), Shape({3, 3, 4, 20}),
                             Shape({1, 1}), Shape({1, 9})}) {
    for (const double gain : {1.0, 0.5}) {
      const auto vectors = Vectors(Initial(initializers::Orthogonal(gain), shape));
      for (size_t i = 0; i < vectors.size(); ++i) {
        for (size_t j = 0; j <= i; ++j) {
          double product = 0;
          for (size_t k = 0; k < vectors[i].size(); ++k) product += vectors[i][k] * vectors[j][k];
          EXPECT_NEAR(product, i == j ? gain * gain : 0, 2e-6) << shape.ToString();
        }
      }
    }
  }
}

// If the distribution is uniform, the elements of an n x n matrix have mean 0 and variance 1 / n in
// every row and column. Gram-Schmidt with wrong signs fails this in the first column.
TEST(InitializersTest, OrthogonalIsUniformlyDistributed) {
  constexpr int kDraws = 200, kSize = 3;
  double mean[kSize * kSize] = {}, square[kSize * kSize] = {};
  for (int seed = 1; seed <= kDraws; ++seed) {
    const Tensor t = Initial(initializers::Orthogonal(), {kSize, kSize}, DT_FLOAT, seed);
    for (int i = 0; i < kSize * kSize; ++i) {
      mean[i] += t.flat<float>()[i] / kDraws;
      square[i] += t.flat<float>()[i] * t.flat<float>()[i] / kDraws;
    }
  }
  for (int i = 0; i < kSize * kSize; ++i) {
    EXPECT_NEAR(mean[i], 0, 0.2) << i;
    EXPECT_NEAR(square[i], 1.0 / kSize, 0.1) << i;
  }
}

TEST(InitializersTest, LowPrecisionIsSupported) {
  const Tensor t = Initial(initializers::Orthogonal(), {8, 8}, DT_BFLOAT16);
  EXPECT_EQ(t.dtype(), DT_BFLOAT16);
  EXPECT_GT(LargestFinite(t), 0.3);
}

TEST(InitializersTest, InvalidArgumentsAreReported) {
  const auto error = [](const Initializer& initializer, const Shape& shape) {
    Graph graph;
    CreateVariable(Scope(&graph), "v", shape, initializer);
    return graph.status();
  };
  EXPECT_THAT(error(initializers::Orthogonal(), {3}),
              IsError(kInvalid, "Orthogonal:", "two dimensions", "got shape [3]"));
  EXPECT_THAT(error(initializers::Identity(), {3}),
              IsError(kInvalid, "Identity:", "matrix", "got shape [3]"));
  EXPECT_THAT(error(initializers::VarianceScaling({.scale = 0}), {3}),
              IsError(kInvalid, "VarianceScaling:", "scale:", "got 0"));
}

}  // namespace
}  // namespace mirrorflow
