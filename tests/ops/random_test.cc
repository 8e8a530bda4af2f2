// SPDX-License-Identifier: Apache-2.0
//
// Tests the random ops: the generator's published test vectors, the distributions, and what the
// values do and do not depend on.
#include "ops/random.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "framework/core/status.h"
#include "framework/runtime/evaluate_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "kernels/cpu/philox.h"
#include "ops/constant.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

using RandomBuilder = Output (*)(const Scope&, Output, DataType, const ops::RandomOptions&);

struct Distribution {
  const char* name;
  RandomBuilder build;
};

constexpr Distribution kDistributions[] = {
    {"RandomStandardNormal", ops::RandomStandardNormal},
    {"RandomUniform", ops::RandomUniform},
    {"TruncatedNormal", ops::TruncatedNormal},
};

struct DrawOptions {
  const char* node_name = "random";
  ops::RandomOptions seeds;
  EvaluateOptions evaluate;
};

// Draws one replica's shard, with shape `local`, of a tensor with shape `global`.
Tensor DrawShard(RandomBuilder build, DataType dtype, const Shape& global, const Shape& local,
                 const DrawOptions& options) {
  Graph graph;
  const Scope scope(&graph);
  const Output shape = ops::VectorConst(scope, global.dims());
  const Output y = build(scope.WithName(options.node_name), shape, dtype, options.seeds);
  MF_CHECK(scope.ok());
  const Tensor dims = *Tensor::Allocate(DT_INT32, Shape({global.rank()}));
  const auto result = EvaluateNode(*y.node, {dims}, {local}, CpuKernels(), options.evaluate);
  EXPECT_TRUE(result.ok()) << result.status();
  return result->at(0);
}

Tensor Draw(RandomBuilder build, DataType dtype, const Shape& shape,
            const DrawOptions& options = {}) {
  return DrawShard(build, dtype, shape, shape, options);
}

// The vectors are from Random123, tests/kat_vectors, philox4x32 with 10 rounds.
TEST(Philox, MatchesPublishedTestVectors) {
  struct Answer {
    uint32_t counter[4], key[2], want[4];
  };
  constexpr Answer kAnswers[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Answer& answer : kAnswers) {
    PhiloxBlocks<3> blocks;  // the result must not depend on the block's position
    for (int w = 0; w < 4; ++w) std::fill_n(blocks.word[w], 3, answer.counter[w]);
    Philox4x32(uint64_t{answer.key[1]} << 32 | answer.key[0], blocks);
    for (int w = 0; w < 4; ++w) {
      for (int b = 0; b < 3; ++b) EXPECT_EQ(blocks.word[w][b], answer.want[w]);
    }
  }
}

TEST(Random, ShardsEqualRowsOfWholeTensor) {
  const std::vector<std::vector<int64_t>> cuts = {
      {12}, {5, 7}, {0, 12}, {1, 0, 11}, {3, 3, 3, 3}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
  for (const Distribution& distribution : kDistributions) {
    for (const DataType dtype : {DT_FLOAT, DT_DOUBLE}) {
      // Because a row has 33 elements, rows begin at any position in a block. Each row of the axis
      // is `factor` rows of the tensor.
      for (const auto& [shape, dim, factor] : {std::tuple<Shape, int, int64_t>{{12, 11, 3}, 0, 1},
                                               {{24, 33}, 0, 2},
                                               {{5, 12, 7}, 1, 1}}) {
        const Tensor whole = Draw(distribution.build, dtype, shape);
        for (const std::vector<int64_t>& cut : cuts) {
          std::vector<Tensor> parts;
          int64_t first_row = 0;
          for (const int64_t rows : cut) {
            Shape local = shape;
            local.set_dim(dim, rows * factor);
            const std::vector<Sharding> shardings = {Sharded{/*axis=*/2, dim, factor}};
            const std::vector<Shape> global = {shape};
            DrawOptions options;
            options.evaluate.params.first_row[2] = first_row;
            options.evaluate.output_shardings = shardings;
            options.evaluate.global_output_shapes = global;
            parts.push_back(DrawShard(distribution.build, dtype, shape, local, options));
            first_row += rows;
          }
          EXPECT_TRUE(Tensor::Identical(ConcatenateAlong(parts, dim), whole))
              << distribution.name << " " << DataTypeName(dtype) << " " << shape.ToString();
        }
      }
    }
  }
}

struct Moments {
  double mean = 0, variance = 0, fourth = 0, smallest = 0, largest = 0;
};

Moments MomentsOf(const Tensor& tensor) {
  std::vector<double> x(tensor.num_elements());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = tensor.dtype() == DT_FLOAT ? tensor.flat<float>()[i] : tensor.flat<double>()[i];
  }
  Moments m{.smallest = x[0], .largest = x[0]};
  for (const double v : x) m.mean += v / x.size();
  for (const double v : x) {
    const double square = (v - m.mean) * (v - m.mean);
    m.variance += square / x.size();
    m.fourth += square * square / x.size();
    m.smallest = std::min(m.smallest, v);
    m.largest = std::max(m.largest, v);
  }
  return m;
}

TEST(Random, MomentsMatchDistribution) {
  constexpr int64_t kCount = 1000000;  // the standard error of a mean is 0.001
  for (const DataType dtype : {DT_FLOAT, DT_DOUBLE}) {
    const Moments uniform = MomentsOf(Draw(ops::RandomUniform, dtype, Shape({kCount})));
    EXPECT_NEAR(uniform.mean, 0.5, 0.002);
    EXPECT_NEAR(uniform.variance, 1.0 / 12, 0.001);
    EXPECT_GE(uniform.smallest, 0);
    EXPECT_LT(uniform.smallest, 1e-4);
    EXPECT_LT(uniform.largest, 1);
    EXPECT_GT(uniform.largest, 1 - 1e-4);

    const Moments normal = MomentsOf(Draw(ops::RandomStandardNormal, dtype, Shape({kCount})));
    EXPECT_NEAR(normal.mean, 0, 0.004);
    EXPECT_NEAR(normal.variance, 1, 0.006);
    EXPECT_NEAR(normal.fourth, 3, 0.06);
    EXPECT_GT(normal.largest, 4);

    // A standard normal variable that is truncated at two standard deviations has the variance 1 -
    // 4 phi(2) / (2 Phi(2) - 1).
    const Moments truncated = MomentsOf(Draw(ops::TruncatedNormal, dtype, Shape({kCount})));
    EXPECT_NEAR(truncated.mean, 0, 0.004);
    EXPECT_NEAR(truncated.variance, 0.7737, 0.004);
    EXPECT_LE(truncated.largest, 2);
    EXPECT_GE(truncated.smallest, -2);
    EXPECT_GT(truncated.largest, 1.99);
  }
}

TEST(Random, NeighboursAreUncorrelated) {
  constexpr int64_t kCount = 1000000;
  for (const Distribution& distribution : kDistributions) {
    const Tensor x = Draw(distribution.build, DT_DOUBLE, Shape({kCount}));
    const Moments m = MomentsOf(x);
    for (const int64_t lag : {1, 2, 3, 4, 64}) {
      double covariance = 0;
      for (int64_t i = 0; i + lag < kCount; ++i) {
        covariance +=
            (x.flat<double>()[i] - m.mean) * (x.flat<double>()[i + lag] - m.mean) / kCount;
      }
      EXPECT_NEAR(covariance / m.variance, 0, 0.005) << distribution.name << " lag " << lag;
    }
  }
}

TEST(Random, DependsOnlyOnSeedStepAndName) {
  auto with = [](uint64_t seed, uint64_t step, const char* name, ops::RandomOptions seeds = {}) {
    DrawOptions options{.node_name = name, .seeds = seeds};
    options.evaluate.params.seed = seed;
    options.evaluate.params.step = step;
    const Tensor x = Draw(ops::RandomUniform, DT_FLOAT, Shape({4}), options);
    return std::vector<float>(x.flat<float>().begin(), x.flat<float>().end());
  };
  const std::set<std::vector<float>> all = {
      with(1, 1, "a"),
      with(2, 1, "a"),
      with(1, 2, "a"),
      with(1, 1, "b"),
      with(1, 1, "a", {.seed = 1}),
      with(1, 1, "a", {.seed2 = 1}),
      with(1, 1, "a", {.seed = 1, .seed2 = 1}),
  };
  EXPECT_EQ(all.size(), 7u);
  EXPECT_EQ(with(1, 1, "a"), with(1, 1, "a"));
  // An op's own seeds replace the session's seed.
  EXPECT_EQ(with(1, 1, "a", {.seed = 7}), with(2, 1, "a", {.seed = 7}));
  EXPECT_NE(with(1, 1, "a", {.seed = 7}), with(1, 2, "a", {.seed = 7}));
}

// Runs must be reproducible in later versions and on other machines. The expected values come from
// a Python implementation of the same definition.
TEST(Random, NumbersAreStableAcrossVersions) {
  const Tensor x =
      Draw(ops::RandomUniform, DT_FLOAT, Shape({4}), {.seeds = {.seed = 1, .seed2 = 2}});
  const std::vector<float> got(x.flat<float>().begin(), x.flat<float>().end());
  EXPECT_EQ(got, (std::vector<float>{12308759 * 0x1p-24f, 8262415 * 0x1p-24f, 5825199 * 0x1p-24f,
                                     15913246 * 0x1p-24f}));
}

TEST(Random, InfersShapeAndRejectsNegativeSize) {
  Graph graph;
  const Scope scope(&graph);
  const Output y = ops::RandomUniform(scope, ops::VectorConst(scope, {2, 3}), DT_FLOAT);
  EXPECT_EQ(scope.shape(y), Shape({2, 3}));
  ops::RandomUniform(scope, ops::VectorConst(scope, {2, -3}), DT_FLOAT);
  EXPECT_THAT(scope.status(),
              IsError(absl::StatusCode::kInvalidArgument, "RandomUniform(", "[2,-3]"));
}

}  // namespace
}  // namespace mirrorflow
