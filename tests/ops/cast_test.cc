// SPDX-License-Identifier: Apache-2.0
#include "ops/cast.h"

#include <cmath>
#include <limits>

#include "framework/graph/shape_inference.h"
#include "framework/runtime/evaluate_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/control.h"
#include "ops/shape_ops.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

template <typename To, typename From>
To Convert(From value) {
  Graph graph;
  const Scope scope(&graph);
  const Output y =
      ops::Cast(scope, ops::Placeholder(scope, DataTypeOf<From>(), Shape()), DataTypeOf<To>());
  EXPECT_TRUE(scope.ok()) << scope.status();
  const absl::StatusOr<std::vector<Tensor>> result =
      EvaluateNode(*y.node, {Tensor::Scalar(value)}, {Shape()}, CpuKernels());
  EXPECT_TRUE(result.ok()) << result.status();
  return result->at(0).scalar<To>();
}

TEST(Cast, OutOfRangeFloatsBecomeSmallestInteger) {
  constexpr int32_t kMin32 = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
  for (const double x : {1e30, -1e30, static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    EXPECT_EQ(Convert<int32_t>(x), kMin32) << x;
    EXPECT_EQ(Convert<int64_t>(x), kMin64) << x;
    EXPECT_EQ(Convert<int32_t>(static_cast<float>(x)), kMin32) << x;
    EXPECT_EQ(Convert<int64_t>(static_cast<float>(x)), kMin64) << x;
    EXPECT_EQ(Convert<uint8_t>(x), 0) << x;
  }
  EXPECT_EQ(Convert<int32_t>(2147483648.0f), kMin32);
  EXPECT_EQ(Convert<int32_t>(2147483520.0f), 2147483520);
  EXPECT_EQ(Convert<int32_t>(-2147483648.0), kMin32);
}

TEST(Cast, PropagatesPartiallyKnownShape) {
  Graph graph;
  const Scope scope(&graph);
  const Output x = ops::Placeholder(scope, DT_FLOAT, {-1, 3});
  const Output shape = ops::Cast(scope, ops::Shape(scope, x), DT_INT64);
  ASSERT_TRUE(graph.values().at(shape).as_shape.has_value());
  EXPECT_EQ(*graph.values().at(shape).as_shape, Shape({-1, 3}));
  // Casting a constant gives a constant.
  const Output y = ops::Placeholder(scope, DT_FLOAT, {2, 3});
  const Output known = ops::Cast(scope, ops::Shape(scope, y, {.out_type = DT_INT64}), DT_INT32);
  EXPECT_TRUE(
      Tensor::Identical(graph.values().at(known).constant, Tensor::Vector<int32_t>({2, 3})));
}

TEST(Cast, RejectsTruncationOfDoublePrecision) {
  Graph graph;
  const Scope scope(&graph);
  ops::Cast(scope, ops::Placeholder(scope, DT_DOUBLE, {2}), DT_FLOAT, {.truncate = true});
  EXPECT_THAT(scope.status(), IsError(absl::StatusCode::kUnimplemented, "Cast(", "'Truncate'"));
}

}  // namespace
}  // namespace mirrorflow
