// SPDX-License-Identifier: Apache-2.0
//
// Tests what the stored cases of reductions do not cover: partially known shapes, errors, long
// sums, Prod's gradient at zeros, and gradients for batches of unknown size.
#include "ops/reduction.h"

#include <cmath>
#include <limits>

#include "framework/graph/shape_inference.h"
#include "framework/runtime/evaluate_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/arg_max.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/gradients.h"
#include "ops/shape_ops.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

TEST(Reduction, InfersKnownPartOfShape) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, DT_FLOAT, {-1, 3, 4});
  EXPECT_EQ(scope.shape(ops::Sum(scope, x, {0})), Shape({3, 4}));
  EXPECT_EQ(scope.shape(ops::Sum(scope, x, {-1}, {.keep_dims = true})), Shape({-1, 3, 1}));
  EXPECT_EQ(scope.shape(ops::Sum(scope, x, {})), Shape({-1, 3, 4}));
  const Output axes = ops::Placeholder(scope, DT_INT32, {-1});
  EXPECT_TRUE(scope.shape(ops::Sum(scope, x, axes)).unknown_rank());
  EXPECT_EQ(scope.shape(ops::Sum(scope, x, axes, {.keep_dims = true})), Shape({-1, -1, -1}));
  const Output any = ops::Placeholder(scope, DT_FLOAT);
  EXPECT_TRUE(scope.shape(ops::Sum(scope, any, {0})).unknown_rank());
  EXPECT_TRUE(scope.ok()) << scope.status();
}

TEST(Reduction, WithoutAxesReducesAllDimensions) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Const(scope, Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Output mean = ops::Mean(scope, x);
  EXPECT_EQ(scope.shape(mean), Shape({}));
  const Output kept = ops::Sum(scope, x, ops::ReductionAxes::All(), {.keep_dims = true});
  EXPECT_EQ(scope.shape(kept), Shape({1, 1}));
  const Output any = ops::Placeholder(scope.WithName("any"), DT_FLOAT);
  const Output largest = ops::Max(scope, any);
  ASSERT_TRUE(scope.ok()) << scope.status();
  const auto session = CreateTestSession(graph, {.replicas = 2});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto values =
      (*session)->Run({{any, Tensor::Of<float>({2, 2, 1}, {7, 9, 8, -1})}}, {mean, kept, largest});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<float>(), 3.5f);
  EXPECT_EQ((*values)[1].data<float>()[0], 21.0f);
  EXPECT_EQ((*values)[2].scalar<float>(), 9.0f);
}

TEST(Reduction, RejectsInvalidAxes) {
  const std::pair<std::vector<int64_t>, const char*> kCases[] = {
      {{2}, "[-2, 2), got 2"},
      {{-3}, "[-2, 2), got -3"},
      {{0, -2}, "got dimension 0 twice"},
  };
  for (const auto& [axes, token] : kCases) {
    Graph graph;
    const Scope scope(&graph);
    ops::Max(scope, ops::Placeholder(scope, DT_FLOAT, {2, 3}), axes);
    EXPECT_THAT(scope.status(), IsError(absl::StatusCode::kInvalidArgument, "Max(Max)",
                                        "reduction_indices", token));
  }
}

TEST(ArgMax, RejectsEmptyDimension) {
  Graph graph;
  const Scope scope(&graph);
  ops::ArgMax(scope, ops::Placeholder(scope, DT_FLOAT, {2, 0}), 1);
  EXPECT_THAT(scope.status(), IsError(absl::StatusCode::kInvalidArgument, "ArgMax(ArgMax)",
                                      "dimension 1", "got shape [2,0]"));
}

TEST(ArgMax, NeverChoosesNaN) {
  Graph graph;
  const Scope scope(&graph);
  const Output y =
      ops::ArgMax(scope, ops::Placeholder(scope, DT_FLOAT, {3, 3}), 1, {.output_type = DT_INT32});
  const float inf = INFINITY;
  const Tensor x = Tensor::Of<float>({3, 3}, {NAN, 1, 2, NAN, NAN, NAN, -inf, -inf, 0});
  const auto result =
      EvaluateNode(*y.node, {x, Tensor::Scalar<int32_t>(1)}, {Shape({3})}, CpuKernels());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(Tensor::Identical(result->at(0), Tensor::Vector<int32_t>({2, 0, 2})));
}

Tensor Reduce(Output (*build)(const Scope&, Output, const ops::ReductionAxes&,
                              const ops::ReductionOptions&),
              const Tensor& x, std::vector<int64_t> axes) {
  Graph graph;
  const Scope scope(&graph);
  const Output y = build(scope, ops::Placeholder(scope, x.dtype(), x.shape()), axes, {});
  EXPECT_TRUE(scope.ok()) << scope.status();
  const Tensor indices = Tensor::Vector<int32_t>(std::vector<int32_t>(axes.begin(), axes.end()));
  const auto result = EvaluateNode(*y.node, {x, indices}, {scope.shape(y)}, CpuKernels());
  EXPECT_TRUE(result.ok()) << result.status();
  return result->at(0);
}

// A float sum that adds ones sequentially stops growing at 2^24.
TEST(Reduction, LongFloatSumsKeepPrecision) {
  constexpr int64_t kCount = int64_t{1} << 25;
  absl::StatusOr<Tensor> x = Tensor::Allocate(DT_FLOAT, Shape({kCount}));
  ASSERT_TRUE(x.ok());
  std::fill_n(x->data<float>(), kCount, 0.1f);
  const double want = kCount * static_cast<double>(0.1f);
  EXPECT_NEAR(Reduce(ops::Sum, *x, {0}).scalar<float>(), want, 1e-6 * want);
  EXPECT_NEAR(Reduce(ops::Mean, *x, {0}).scalar<float>(), 0.1f, 1e-7);
  // This sums over rows and keeps the last dimension.
  const Tensor columns = Reduce(ops::Sum, x->Reshaped({kCount / 2, 2}), {0});
  EXPECT_NEAR(columns.flat<float>()[0], want / 2, 1e-6 * want);
  EXPECT_NEAR(columns.flat<float>()[1], want / 2, 1e-6 * want);
}

// Compares reductions over every set of axes with the definition. The tensor has a dimension of
// size 1.
TEST(Reduction, ReducesEverySetOfAxes) {
  const Shape shape({2, 3, 1, 70, 5});
  absl::StatusOr<Tensor> x = Tensor::Allocate(DT_INT64, shape);
  for (int64_t i = 0; i < x->num_elements(); ++i) x->flat<int64_t>()[i] = (i * 7919) % 1009 - 500;
  for (int mask = 0; mask < 32; ++mask) {
    std::vector<int64_t> axes;
    for (int d = 0; d < 5; ++d) {
      if (mask >> d & 1) axes.push_back(d);
    }
    const Tensor sum = Reduce(ops::Sum, *x, axes), max = Reduce(ops::Max, *x, axes);
    std::vector<int64_t> want_sum(sum.num_elements(), 0);
    std::vector<int64_t> want_max(sum.num_elements(), std::numeric_limits<int64_t>::min());
    for (int64_t i = 0; i < x->num_elements(); ++i) {
      int64_t rest = i, at = 0, stride = 1;
      for (int d = 4; d >= 0; --d) {
        const int64_t index = rest % shape.dim(d);
        rest /= shape.dim(d);
        if (mask >> d & 1) continue;
        at += index * stride;
        stride *= shape.dim(d);
      }
      want_sum[at] += x->flat<int64_t>()[i];
      want_max[at] = std::max(want_max[at], x->flat<int64_t>()[i]);
    }
    EXPECT_EQ(std::vector<int64_t>(sum.flat<int64_t>().begin(), sum.flat<int64_t>().end()),
              want_sum)
        << mask;
    EXPECT_EQ(std::vector<int64_t>(max.flat<int64_t>().begin(), max.flat<int64_t>().end()),
              want_max)
        << mask;
  }
}

TEST(Reduction, MeanOfIntegersDoesNotOverflow) {
  const Tensor x = Tensor::Vector<int32_t>({2000000000, 2000000000, -5});
  EXPECT_EQ(Reduce(ops::Mean, x, {0}).scalar<int32_t>(), 1333333331);
  const Tensor bytes = Tensor::Vector<uint8_t>({200, 201, 202});
  EXPECT_EQ(Reduce(ops::Mean, bytes, {0}).scalar<uint8_t>(), 201);
}

TEST(Prod, ResultIsConstantForKnownShape) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, DT_FLOAT, {2, 3, 4});
  const Output count = ops::Prod(scope, ops::Shape(scope, x), {0});
  EXPECT_TRUE(Tensor::Identical(graph.values().at(count).constant, Tensor::Scalar<int32_t>(24)));
}

// Returns dL/dx of L = sum(build(x, axes) * dy).
Tensor GradientOf(Output (*build)(const Scope&, Output, const ops::ReductionAxes&,
                                  const ops::ReductionOptions&),
                  const Shape& placeholder, const Tensor& x, std::vector<int64_t> axes,
                  const Tensor& dy) {
  Graph graph;
  const Scope scope(&graph);
  const Output in = ops::Placeholder(scope, DT_FLOAT, placeholder);
  const Output y = build(scope, in, axes, {});
  const auto gradients = Gradients(scope, {y}, {in}, {.grad_ys = {ops::Const(scope, dy)}});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  absl::StatusOr<Interpreter> interpreter = Interpreter::Create(graph, CpuKernels());
  const std::vector<std::pair<Output, Tensor>> feeds = {{in, x}};
  const auto results = interpreter->Run(feeds, *gradients);
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? results->at(0) : Tensor();
}

TEST(Prod, GradientIsCorrectIfFactorsAreZero) {
  const Tensor x = Tensor::Of<float>({3, 3}, {2, 3, 4, 2, 0, 4, 0, 0, 4});
  const Tensor got = GradientOf(ops::Prod, {3, 3}, x, {1}, Tensor::Vector<float>({1, 10, 100}));
  EXPECT_TRUE(Tensor::Identical(got, Tensor::Of<float>({3, 3}, {12, 8, 6, 0, 80, 0, 0, 0, 0})));
}

TEST(Reduction, GradientsAreCorrectForBatchOfUnknownSize) {
  const Tensor x = Tensor::Of<float>({2, 2}, {1, 2, 3, 3});
  const Tensor by_column = Tensor::Vector<float>({1, 10}), one = Tensor::Scalar<float>(1);
  const auto expect = [&](const Tensor& got, std::initializer_list<float> want) {
    EXPECT_TRUE(Tensor::Identical(got, Tensor::Of<float>({2, 2}, want))) << TensorToString(got);
  };
  expect(GradientOf(ops::Sum, {-1, 2}, x, {0}, by_column), {1, 10, 1, 10});
  expect(GradientOf(ops::Mean, {-1, 2}, x, {0}, by_column), {0.5, 5, 0.5, 5});
  expect(GradientOf(ops::Mean, {-1, -1}, x, {0, 1}, one), {0.25, 0.25, 0.25, 0.25});
  expect(GradientOf(ops::Max, {-1, 2}, x, {1}, by_column), {0, 1, 5, 5});
}

TEST(Reduction, GradientOfUnknownRankIsError) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, DT_FLOAT);
  const auto gradients = Gradients(scope, {ops::Sum(scope, x, {0})}, {x});
  EXPECT_THAT(gradients.status(),
              IsError(absl::StatusCode::kInvalidArgument, "reduction_indices", "known rank"));
}

}  // namespace
}  // namespace mirrorflow
