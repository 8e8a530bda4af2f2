// SPDX-License-Identifier: Apache-2.0
//
// Tests properties of two-operand element-wise ops that the stored cases do not cover.
#include "ops/binary.h"

#include <limits>

#include "framework/graph/shape_inference.h"
#include "framework/runtime/evaluate_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/binary_math.h"
#include "ops/clip_by_value.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/cumulative.h"
#include "ops/select.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

using BinaryBuilder = Output (*)(const Scope&, Output, Output);

template <typename T>
absl::StatusOr<Tensor> Evaluate(BinaryBuilder build, const Tensor& x, const Tensor& y) {
  Graph graph;
  const Scope scope(&graph);
  const Output z = build(scope, ops::Placeholder(scope, DataTypeOf<T>(), x.shape()),
                         ops::Placeholder(scope, DataTypeOf<T>(), y.shape()));
  MF_RETURN_IF_ERROR(scope.status());
  MF_ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                      EvaluateNode(*z.node, {x, y}, {scope.shape(z)}, CpuKernels()));
  return results[0];
}

Shape ShapeOfSum(const Shape& x, const Shape& y) {
  Graph graph;
  const Scope scope(&graph);
  const Output z =
      ops::AddV2(scope, ops::Placeholder(scope, DT_FLOAT, x), ops::Placeholder(scope, DT_FLOAT, y));
  EXPECT_TRUE(scope.ok()) << scope.status();
  return scope.shape(z);
}

TEST(Binary, BroadcastsPartiallyKnownShapes) {
  EXPECT_EQ(ShapeOfSum({-1, 10}, {10}), Shape({-1, 10}));
  EXPECT_EQ(ShapeOfSum({-1, 1}, {-1, 3}), Shape({-1, 3}));
  EXPECT_EQ(ShapeOfSum({-1}, {4}), Shape({4}));
  EXPECT_EQ(ShapeOfSum({-1}, {1}), Shape({-1}));
  EXPECT_TRUE(ShapeOfSum(Shape::UnknownRank(), {3}).unknown_rank());
}

TEST(Binary, RejectsIncompatibleShapes) {
  Graph graph;
  const Scope scope(&graph);
  ops::Mul(scope, ops::Placeholder(scope, DT_FLOAT, {2, 3}),
           ops::Placeholder(scope, DT_FLOAT, {4}));
  EXPECT_THAT(scope.status(), IsError(absl::StatusCode::kInvalidArgument, "Mul(Mul)",
                                      "[2,3] and [4]", "broadcast"));
}

TEST(Binary, IntegerDivisionByZeroIsError) {
  const Tensor x = Tensor::Vector<int32_t>({7, 8}), y = Tensor::Vector<int32_t>({2, 0});
  for (const BinaryBuilder build :
       {ops::Div, ops::FloorDiv, ops::FloorMod, ops::TruncateDiv, ops::TruncateMod, ops::Mod}) {
    const absl::Status status = Evaluate<int32_t>(build, x, y).status();
    EXPECT_THAT(status, IsError(absl::StatusCode::kInvalidArgument, "integer division", "zero"));
  }
}

TEST(Binary, SmallestIntegerDividedByMinusOneWrapsAround) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const Tensor x = Tensor::Scalar<int64_t>(kMin), y = Tensor::Scalar<int64_t>(-1);
  EXPECT_EQ(Evaluate<int64_t>(ops::Div, x, y)->scalar<int64_t>(), kMin);
  EXPECT_EQ(Evaluate<int64_t>(ops::FloorDiv, x, y)->scalar<int64_t>(), kMin);
  EXPECT_EQ(Evaluate<int64_t>(ops::FloorMod, x, y)->scalar<int64_t>(), 0);
}

TEST(Binary, IntegersWrapAround) {
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  const Tensor x = Tensor::Scalar(kMax), one = Tensor::Scalar(1), two = Tensor::Scalar(2);
  EXPECT_EQ(Evaluate<int32_t>(ops::AddV2, x, one)->scalar<int32_t>(),
            std::numeric_limits<int32_t>::min());
  EXPECT_EQ(Evaluate<int32_t>(ops::Mul, x, two)->scalar<int32_t>(), -2);
  EXPECT_EQ(Evaluate<int32_t>(ops::Pow, two, Tensor::Scalar(32))->scalar<int32_t>(), 0);
}

TEST(Binary, BroadcastsEveryCombinationOfDimensions) {
  // Each operand has size 1 or n in each of four dimensions. The right one may lack up to two
  // leading dimensions.
  const std::vector<int64_t> sizes = {2, 3, 1, 5};
  for (int mask = 0; mask < 256; ++mask) {
    for (int missing = 0; missing < 3; ++missing) {
      Shape left, right;
      for (int d = 0; d < 4; ++d) {
        left.AddDim(mask >> d & 1 ? sizes[d] : 1);
        if (d >= missing) right.AddDim(mask >> (4 + d) & 1 ? sizes[d] : 1);
      }
      absl::StatusOr<Tensor> x = Tensor::Allocate(DT_INT32, left);
      absl::StatusOr<Tensor> y = Tensor::Allocate(DT_INT32, right);
      for (int64_t i = 0; i < x->num_elements(); ++i) x->flat<int32_t>()[i] = 1000 * (i + 1);
      for (int64_t i = 0; i < y->num_elements(); ++i) y->flat<int32_t>()[i] = i;
      const absl::StatusOr<Tensor> z = Evaluate<int32_t>(ops::AddV2, *x, *y);
      ASSERT_TRUE(z.ok()) << z.status();
      // Computes the expected values by the definition of broadcasting, index by index.
      const Shape& out = z->shape();
      auto offset = [&](const Shape& shape, int64_t index) {
        int64_t at = 0, stride = 1;
        for (int d = out.rank() - 1; d >= 0; --d) {
          const int64_t i = index % out.dim(d);
          index /= out.dim(d);
          const int own = d - (out.rank() - shape.rank());
          if (own < 0) continue;
          if (shape.dim(own) != 1) at += i * stride;
          stride *= shape.dim(own);
        }
        return at;
      };
      for (int64_t i = 0; i < z->num_elements(); ++i) {
        ASSERT_EQ(z->flat<int32_t>()[i],
                  x->flat<int32_t>()[offset(left, i)] + y->flat<int32_t>()[offset(right, i)])
            << left.ToString() << right.ToString();
      }
    }
  }
}

TEST(Equal, IncompatibleShapesCompareUnequalOnRequest) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, DT_FLOAT, {2}),
               y = ops::Placeholder(scope, DT_FLOAT, {3});
  const Output equal = ops::Equal(scope, x, y, {.incompatible_shape_error = false});
  const Output differ = ops::NotEqual(scope, x, y, {.incompatible_shape_error = false});
  ASSERT_TRUE(scope.ok()) << scope.status();
  EXPECT_EQ(scope.shape(equal), Shape());
  const std::vector<Tensor> inputs = {Tensor::Vector<float>({1, 2}),
                                      Tensor::Vector<float>({1, 2, 3})};
  EXPECT_FALSE(EvaluateNode(*equal.node, inputs, {Shape()}, CpuKernels())->at(0).scalar<bool>());
  EXPECT_TRUE(EvaluateNode(*differ.node, inputs, {Shape()}, CpuKernels())->at(0).scalar<bool>());
  ops::Equal(scope, x, y);
  EXPECT_THAT(scope.status(), IsError(absl::StatusCode::kInvalidArgument, "Equal(", "[2] and [3]"));
}

// Builds a node and returns the graph's error.
template <typename Build>
absl::Status ErrorOf(Build build) {
  Graph graph;
  const Scope scope(&graph);
  build(scope, [&](DataType dtype, Shape shape) {
    return ops::Placeholder(scope, dtype, std::move(shape));
  });
  return scope.status();
}

TEST(ApproximateEqual, DoesNotBroadcast) {
  EXPECT_THAT(ErrorOf([](const Scope& s, auto operand) {
                ops::ApproximateEqual(s, operand(DT_FLOAT, {2}), operand(DT_FLOAT, {}));
              }),
              IsError(absl::StatusCode::kInvalidArgument, "ApproximateEqual(ApproximateEqual)",
                      "y must", "got []"));
}

TEST(ClipByValue, RejectsBoundOfWrongShape) {
  EXPECT_THAT(ErrorOf([](const Scope& s, auto operand) {
                ops::ClipByValue(s, operand(DT_FLOAT, {2, 3}), operand(DT_FLOAT, {}),
                                 operand(DT_FLOAT, {3}));
              }),
              IsError(absl::StatusCode::kInvalidArgument, "ClipByValue(ClipByValue)",
                      "clip_value_max", "got [3]"));
}

TEST(Select, RejectsConditionOfWrongShape) {
  for (const Shape& condition : {Shape({3}), Shape({2, 1}), Shape({1, 2, 3})}) {
    EXPECT_THAT(ErrorOf([&](const Scope& s, auto operand) {
                  ops::Select(s, operand(DT_BOOL, condition), operand(DT_FLOAT, {2, 3}),
                              operand(DT_FLOAT, {2, 3}));
                }),
                IsError(absl::StatusCode::kInvalidArgument, "Select(Select)", "condition",
                        "got " + condition.ToString()));
  }
}

TEST(Select, DoesNotBroadcast) {
  EXPECT_THAT(
      ErrorOf([](const Scope& s, auto operand) {
        ops::Select(s, operand(DT_BOOL, {2}), operand(DT_FLOAT, {2, 3}), operand(DT_FLOAT, {3}));
      }),
      IsError(absl::StatusCode::kInvalidArgument, "Select(Select)", "t and e", "got [3]"));
}

TEST(Cumsum, RejectsAxisOutOfRange) {
  EXPECT_THAT(ErrorOf([](const Scope& s, auto operand) {
                ops::Cumsum(s, operand(DT_FLOAT, {2, 3}), 2);
              }),
              IsError(absl::StatusCode::kInvalidArgument, "axis"));
}

}  // namespace
}  // namespace mirrorflow
