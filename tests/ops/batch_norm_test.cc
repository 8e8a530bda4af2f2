// SPDX-License-Identifier: Apache-2.0
#include "ops/batch_norm.h"

#include "framework/graph/shape_inference.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/gradients.h"
#include "ops/reduction.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

// A batch normalisation of random values, and the loss sum(y * w), whose gradients the tests check.
struct Problem {
  Problem(const Shape& shape, const ops::FusedBatchNormV3Options& options) {
    const Scope s(&graph);
    const int64_t channels = shape.dim(options.data_format == "NCHW" ? 1 : 3);
    Random random(5);
    auto feed = [&](const Shape& of) {
      feeds.emplace_back(ops::Placeholder(s, DT_DOUBLE, of), RandomTensor(DT_DOUBLE, of, &random));
      return feeds.back().first;
    };
    x = feed(shape);
    scale = feed({channels});
    offset = feed({channels});
    mean = feed({channels});
    const Output variance = feed({channels});
    for (double& v : feeds.back().second.flat<double>()) v = 1.5 + v;
    norm = ops::FusedBatchNormV3(s, x, scale, offset, mean, variance, options);
    const Output weighted =
        ops::Mul(s, norm.y, ops::Const(s, RandomTensor(DT_DOUBLE, shape, &random)));
    loss = ops::Sum(s, weighted, {0, 1, 2, 3});
  }

  Tensor Evaluate(Output output) {
    absl::StatusOr<Interpreter> interpreter = Interpreter::Create(graph, CpuKernels());
    EXPECT_TRUE(interpreter.ok()) << interpreter.status();
    const auto results = interpreter->Run(feeds, {output});
    EXPECT_TRUE(results.ok()) << results.status();
    return results->at(0);
  }

  Graph graph;
  std::vector<std::pair<Output, Tensor>> feeds;
  Output x, scale, offset, mean, loss;
  ops::FusedBatchNormV3Outputs norm;
};

void ExpectGradientsThatDifferencesShow(const Shape& shape,
                                        const ops::FusedBatchNormV3Options& options) {
  Problem problem(shape, options);
  const auto gradients =
      Gradients(Scope(&problem.graph), {problem.loss}, {problem.x, problem.scale, problem.offset});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  constexpr double kStep = 1e-5;
  for (size_t k = 0; k < 3; ++k) {
    const Tensor gradient = problem.Evaluate(gradients->at(k));
    for (int64_t i = 0; i < gradient.num_elements(); ++i) {
      double& at = problem.feeds[k].second.flat<double>()[i];
      const double before = at;
      at = before + kStep;
      const double right = problem.Evaluate(problem.loss).scalar<double>();
      at = before - kStep;
      const double left = problem.Evaluate(problem.loss).scalar<double>();
      at = before;
      EXPECT_NEAR(gradient.flat<double>()[i], (right - left) / (2 * kStep), 1e-6)
          << "operand " << k << ", element " << i;
    }
  }
}

TEST(FusedBatchNormV3, GradientMatchesCentralDifferences) {
  for (const bool is_training : {true, false}) {
    ExpectGradientsThatDifferencesShow({2, 2, 3, 2}, {.is_training = is_training});
    ExpectGradientsThatDifferencesShow(
        {3, 2, 1, 2}, {.epsilon = 0.1f, .data_format = "NCHW", .is_training = is_training});
  }
}

TEST(FusedBatchNormV3, GradientOfStatisticsIsUnimplemented) {
  Problem problem({2, 2, 2, 3}, {});
  const auto gradients = Gradients(Scope(&problem.graph), {problem.norm.batch_mean}, {problem.x});
  EXPECT_THAT(gradients.status(),
              IsError(absl::StatusCode::kUnimplemented, "gradient of output 1"));
}

TEST(FusedBatchNormV3, RejectsVectorsOfWrongLength) {
  Graph graph;
  const Scope s(&graph);
  auto feed = [&](const Shape& shape) { return ops::Placeholder(s, DT_FLOAT, shape); };
  ops::FusedBatchNormV3(s, feed({2, 3, 3, 4}), feed({4}), feed({3}), feed({0}), feed({0}));
  EXPECT_THAT(s.status(), IsError(absl::StatusCode::kInvalidArgument, "FusedBatchNormV3(",
                                  "expected [4], got [3]"));
}

// Only inference reads the statistics.
TEST(FusedBatchNormV3, RejectsStatisticsOfWrongLengthInInference) {
  for (const bool is_training : {true, false}) {
    Graph graph;
    const Scope s(&graph);
    auto feed = [&](const Shape& shape) { return ops::Placeholder(s, DT_FLOAT, shape); };
    ops::FusedBatchNormV3(s, feed({2, 3, 3, 4}), feed({4}), feed({4}), feed({0}), feed({0}),
                          {.is_training = is_training});
    EXPECT_EQ(s.ok(), is_training) << s.status();
  }
}

TEST(FusedBatchNormV3, InfersChannelsFromVectors) {
  Graph graph;
  const Scope s(&graph);
  auto feed = [&](const Shape& shape) { return ops::Placeholder(s, DT_FLOAT, shape); };
  const auto norm = ops::FusedBatchNormV3(s, feed({-1, -1, 5, 5}), feed({-1}), feed({7}), feed({0}),
                                          feed({0}), {.data_format = "NCHW"});
  EXPECT_EQ(s.shape(norm.y), Shape({-1, 7, 5, 5}));
  EXPECT_EQ(s.shape(norm.batch_mean), Shape({7}));
}

}  // namespace
}  // namespace mirrorflow
