// SPDX-License-Identifier: Apache-2.0
//
// Tests the gradients of broadcast operands. Known, partially known and unknown shapes lead to
// different nodes, which must compute the same values.
#include "ops/broadcast_gradient.h"

#include <algorithm>

#include "framework/graph/shape_inference.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/binary.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/gradients.h"
#include "ops/matmul.h"
#include "ops/select.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

Tensor Counting(const Shape& shape) {
  absl::StatusOr<Tensor> t = Tensor::Allocate(DT_FLOAT, shape);
  for (int64_t i = 0; i < t->num_elements(); ++i) t->flat<float>()[i] = static_cast<float>(i + 1);
  return *std::move(t);
}

// A graph that computes z = x + y for placeholders with the given shapes, and the gradients of x
// and y for a given dz.
struct Sum {
  Sum(const Shape& x_shape, const Shape& y_shape) {
    const Scope scope(&graph);
    x = ops::Placeholder(scope, DT_FLOAT, x_shape);
    y = ops::Placeholder(scope, DT_FLOAT, y_shape);
    const Output z = ops::AddV2(scope, x, y);
    dz = ops::Placeholder(scope, DT_FLOAT);
    const auto gradients = Gradients(scope, {z}, {x, y}, {.grad_ys = {dz}});
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    dx = gradients->at(0);
    dy = gradients->at(1);
  }

  std::vector<Tensor> Run(const Shape& x_shape, const Shape& y_shape) {
    absl::StatusOr<Interpreter> interpreter = Interpreter::Create(graph, CpuKernels());
    EXPECT_TRUE(interpreter.ok()) << interpreter.status();
    const Shape out = *BroadcastShapes(x_shape, y_shape);
    const std::vector<std::pair<Output, Tensor>> feeds = {
        {x, Counting(x_shape)}, {y, Counting(y_shape)}, {dz, Counting(out)}};
    const auto results = interpreter->Run(feeds, {dx, dy});
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *results : std::vector<Tensor>();
  }

  int Count(absl::string_view op) const {
    const std::vector<Node*> nodes = graph.Nodes();
    return static_cast<int>(
        std::count_if(nodes.begin(), nodes.end(), [&](Node* n) { return n->op().name == op; }));
  }

  Graph graph;
  Output x, y, dz, dx, dy;
};

TEST(SumToOperand, BuildsNothingForOperandsThatCannotBeBroadcast) {
  EXPECT_EQ(Sum({2, 3}, {2, 3}).Count("Sum"), 0);
  EXPECT_EQ(Sum({-1, 3}, {1, 3}).Count("BroadcastGradientArgs"), 0);
  const Sum bias({-1, 3}, {3});
  EXPECT_EQ(bias.Count("Sum"), 1);
  EXPECT_EQ(bias.Count("BroadcastGradientArgs"), 0);
  EXPECT_EQ(bias.dx, bias.dz);
}

TEST(SumToOperand, SumsOverMissingAndSizeOneDimensions) {
  Sum sum({1, 4, 1}, {2, 3, 4, 5});
  EXPECT_EQ(sum.Count("BroadcastGradientArgs"), 0);
  const std::vector<Tensor> grads = sum.Run({1, 4, 1}, {2, 3, 4, 5});
  ASSERT_EQ(grads[0].shape(), Shape({1, 4, 1}));
  for (int64_t j = 0; j < 4; ++j) {
    float want = 0;
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t k = 0; k < 5; ++k) want += static_cast<float>((i * 4 + j) * 5 + k + 1);
    }
    EXPECT_EQ(grads[0].flat<float>()[j], want);
  }
  EXPECT_TRUE(Tensor::Identical(grads[1], Counting({2, 3, 4, 5})));
}

TEST(SumToOperand, HandlesUnknownDimensionWhenFed) {
  // Either batch size may be 1.
  Sum sum({-1, 3}, {-1, 3});
  EXPECT_EQ(sum.Count("BroadcastGradientArgs"), 2);
  const std::vector<Tensor> same = sum.Run({2, 3}, {2, 3});
  EXPECT_TRUE(Tensor::Identical(same[0], Counting({2, 3})));
  EXPECT_TRUE(Tensor::Identical(same[1], Counting({2, 3})));
  const std::vector<Tensor> stretched = sum.Run({1, 3}, {2, 3});
  EXPECT_TRUE(Tensor::Identical(stretched[0], Tensor::Of<float>({1, 3}, {5, 7, 9})));
  EXPECT_TRUE(Tensor::Identical(stretched[1], Counting({2, 3})));
}

TEST(SumToOperand, HandlesUnknownRankWhenFed) {
  Sum sum(Shape::UnknownRank(), Shape::UnknownRank());
  const std::vector<Tensor> grads = sum.Run({3}, {2, 3});
  EXPECT_TRUE(Tensor::Identical(grads[0], Tensor::Vector<float>({5, 7, 9})));
  EXPECT_TRUE(Tensor::Identical(grads[1], Counting({2, 3})));
}

TEST(SumToOperand, HandlesThreeOperands) {
  Graph graph;
  const Scope scope(&graph);
  const Output c = ops::Placeholder(scope, DT_BOOL, {-1, 1});
  const Output t = ops::Placeholder(scope, DT_FLOAT, {3}), e = ops::ScalarConst(scope, DT_FLOAT, 0);
  const Output y = ops::SelectV2(scope, c, t, e);
  const auto gradients = Gradients(scope, {y}, {t, e});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  absl::StatusOr<Interpreter> interpreter = Interpreter::Create(graph, CpuKernels());
  const std::vector<std::pair<Output, Tensor>> feeds = {
      {c, Tensor::Of<bool>({4, 1}, {true, false, true, true})}, {t, Counting({3})}};
  const auto results = interpreter->Run(feeds, *gradients);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE(Tensor::Identical(results->at(0), Tensor::Vector<float>({3, 3, 3})));
  EXPECT_TRUE(Tensor::Identical(results->at(1), Tensor::Scalar<float>(3)));
}

// Returns the gradients of x [b,2,3] · y [c,3,2] for a dz of ones. b and c are the batch sizes that
// are fed.
std::vector<Tensor> BatchProductGradients(const Shape& known_x, const Shape& known_y, int64_t b,
                                          int64_t c) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, DT_FLOAT, known_x);
  const Output y = ops::Placeholder(scope, DT_FLOAT, known_y);
  const auto gradients = Gradients(scope, {ops::BatchMatMulV2(scope, x, y)}, {x, y});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  absl::StatusOr<Interpreter> interpreter = Interpreter::Create(graph, CpuKernels());
  const auto results =
      interpreter->Run({{x, Counting({b, 2, 3})}, {y, Counting({c, 3, 2})}}, *gradients);
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? *results : std::vector<Tensor>(2);
}

TEST(SumToOperand, KeepsMatrixDimensionsOfOperands) {
  for (const auto& [b, c] : {std::pair<int64_t, int64_t>{4, 4}, {1, 4}, {4, 1}}) {
    const std::vector<Tensor> known = BatchProductGradients({b, 2, 3}, {c, 3, 2}, b, c);
    const Shape any = Shape::UnknownRank();
    for (const auto& [x, y] :
         {std::pair<Shape, Shape>{{-1, 2, 3}, {-1, 3, 2}}, {{-1, 2, 3}, any}, {any, any}}) {
      const std::vector<Tensor> got = BatchProductGradients(x, y, b, c);
      EXPECT_TRUE(Tensor::Identical(known[0], got[0])) << b << " " << c << " " << x.ToString();
      EXPECT_TRUE(Tensor::Identical(known[1], got[1])) << b << " " << c << " " << y.ToString();
    }
  }
}

TEST(BroadcastGradientArgs, ResultIsConstantIfBothShapesAreKnown) {
  Graph graph;
  const Scope scope(&graph);
  const auto args = ops::BroadcastGradientArgs(scope, ops::VectorConst(scope, {4, 1, 3}),
                                               ops::VectorConst(scope, {2, 1}));
  EXPECT_TRUE(Tensor::Identical(graph.values().at(args.r0).constant, Tensor::Vector<int32_t>({1})));
  EXPECT_TRUE(
      Tensor::Identical(graph.values().at(args.r1).constant, Tensor::Vector<int32_t>({0, 2})));
}

TEST(BroadcastGradientArgs, RejectsIncompatibleShapes) {
  Graph graph;
  const Scope scope(&graph);
  ops::BroadcastGradientArgs(scope, ops::VectorConst(scope, {2}), ops::VectorConst(scope, {3}));
  EXPECT_THAT(scope.status(),
              IsError(absl::StatusCode::kInvalidArgument,
                      "BroadcastGradientArgs(BroadcastGradientArgs)", "[2] and [3]", "broadcast"));
}

}  // namespace
}  // namespace mirrorflow
