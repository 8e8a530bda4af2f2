// SPDX-License-Identifier: Apache-2.0
//
// Tests properties of one-operand element-wise ops that the stored cases do not cover.
#include "ops/unary.h"

#include <cmath>
#include <limits>

#include "framework/graph/shape_inference.h"
#include "framework/runtime/evaluate_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/activation.h"
#include "ops/control.h"
#include "ops/identity.h"
#include "ops/registry.h"
#include "ops/shape_ops.h"
#include "ops/unary_grad.h"
#include "ops/unary_math.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using UnaryBuilder = Output (*)(const Scope&, Output);

template <typename T>
std::vector<T> Evaluate(UnaryBuilder build, std::vector<T> values) {
  Graph graph;
  const Scope scope(&graph);
  const Shape shape({static_cast<int64_t>(values.size())});
  const Output y = build(scope, ops::Placeholder(scope, DataTypeOf<T>(), shape));
  EXPECT_TRUE(scope.ok()) << scope.status();
  const absl::StatusOr<std::vector<Tensor>> result =
      EvaluateNode(*y.node, {Tensor::Of<T>(shape, values)}, {shape}, CpuKernels());
  EXPECT_TRUE(result.ok()) << result.status();
  return std::vector<T>(result->at(0).flat<T>().begin(), result->at(0).flat<T>().end());
}

struct Reference {
  const char* name;
  UnaryBuilder build;
  double (*value)(double);
  double low, high;
};

constexpr Reference kReferences[] = {
    {"Cos", ops::Cos, std::cos, -1e4, 1e4},
    {"Elu", ops::Elu, [](double x) { return x < 0 ? std::expm1(x) : x; }, -20, 20},
    {"Erf", ops::Erf, std::erf, -6, 6},
    {"Erfc", ops::Erfc, std::erfc, -6, 9},
    {"Exp", ops::Exp, std::exp, -86, 88},
    {"Expm1", ops::Expm1, std::expm1, -20, 88},
    {"Log", ops::Log, std::log, 1e-6, 1e6},
    {"Log1p", ops::Log1p, std::log1p, -0.999, 10},
    {"Rsqrt", ops::Rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1e-6, 1e6},
    {"Sigmoid", ops::Sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80},
    {"Sin", ops::Sin, std::sin, -1e4, 1e4},
    {"Softplus", ops::Softplus, [](double x) { return std::log1p(std::exp(x)); }, -80, 80},
    {"Sqrt", ops::Sqrt, std::sqrt, 0, 1e6},
    {"Tanh", ops::Tanh, std::tanh, -12, 12},
};

TEST(Unary, FloatFunctionsAreWithinFourEpsilonsOfDoublePrecision) {
  constexpr int kCount = 20000;
  for (const Reference& reference : kReferences) {
    std::vector<float> x(kCount);
    for (int i = 0; i < kCount; ++i) {
      x[i] = static_cast<float>(reference.low + (reference.high - reference.low) * i / kCount);
    }
    const std::vector<float> y = Evaluate(reference.build, x);
    for (int i = 0; i < kCount; ++i) {
      const double want = reference.value(x[i]);
      const double unit = std::numeric_limits<float>::epsilon() * std::abs(want);
      ASSERT_NEAR(y[i], want, 4 * unit) << reference.name << "(" << x[i] << ")";
    }
  }
}

TEST(Unary, ResultDoesNotDependOnPosition) {
  for (const Reference& reference : kReferences) {
    const float x = static_cast<float>(reference.low + 0.37 * (reference.high - reference.low));
    for (int size = 1; size < 40; ++size) {
      const std::vector<float> y = Evaluate(reference.build, std::vector<float>(size, x));
      for (int i = 0; i < size; ++i) EXPECT_EQ(y[i], y[0]) << reference.name << " " << size;
      EXPECT_EQ(y[0], Evaluate(reference.build, std::vector<float>{x})[0])
          << reference.name << " " << size;
    }
  }
}

TEST(Unary, ErfcIsExactFarFromZero) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Evaluate<float>(ops::Erfc, {-kInfinity, -1e30f, -11, 0, 11, 1e30f, kInfinity}),
            (std::vector<float>{2, 2, 2, 1, 0, 0, 0}));
  EXPECT_TRUE(std::isnan(Evaluate<float>(ops::Erfc, {std::nanf("")})[0]));
}

TEST(Unary, ExpUnderflowsToZeroAndOverflowsToInfinity) {
  EXPECT_EQ(Evaluate<float>(ops::Exp, {-104, -1000}), std::vector<float>(2));
  EXPECT_EQ(Evaluate<double>(ops::Exp, {-746, -1e6}), std::vector<double>(2));
  EXPECT_EQ(Evaluate<float>(ops::Exp, {89})[0], std::numeric_limits<float>::infinity());
}

TEST(Unary, IntegersWrapAround) {
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(Evaluate<int32_t>(ops::Abs, {kMin})[0], kMin);
  EXPECT_EQ(Evaluate<int32_t>(ops::Neg, {kMin})[0], kMin);
  EXPECT_EQ(Evaluate<int32_t>(ops::Square, {65536 + 3})[0], 6 * 65536 + 9);
  EXPECT_EQ(Evaluate<uint8_t>(ops::Square, {17})[0], 33);
}

TEST(Unary, KeepsPartiallyKnownShape) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, DT_FLOAT, {-1, 3});
  EXPECT_EQ(scope.shape(ops::Tanh(scope, x)), Shape({-1, 3}));
  EXPECT_TRUE(scope.shape(ops::Tanh(scope, ops::Placeholder(scope, DT_FLOAT))).unknown_rank());
}

TEST(UnaryGrad, RejectsOperandsOfDifferentShapes) {
  Graph graph;
  const Scope scope(&graph);
  ops::ReluGrad(scope, ops::Placeholder(scope, DT_FLOAT, {2}),
                ops::Placeholder(scope, DT_FLOAT, {3}));
  EXPECT_THAT(scope.status(), IsError(absl::StatusCode::kInvalidArgument, "ReluGrad(ReluGrad)",
                                      "features", "got [3]"));
}

TEST(Identity, PropagatesPartiallyKnownShape) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, DT_FLOAT, {-1, 3});
  const Output shape = ops::Identity(scope, ops::Shape(scope, x));
  const ValueInfo& info = graph.values().at(shape);
  ASSERT_TRUE(info.as_shape.has_value());
  EXPECT_EQ(*info.as_shape, Shape({-1, 3}));
}

}  // namespace
}  // namespace mirrorflow
