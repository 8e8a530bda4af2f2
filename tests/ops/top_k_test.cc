// SPDX-License-Identifier: Apache-2.0
//
// Tests which arguments TopKV2 rejects and where it sorts NaN, which TensorFlow does not define.
#include "ops/top_k.h"

#include <cmath>

#include "framework/core/status.h"
#include "framework/runtime/evaluate_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

absl::Status ErrorOf(const Shape& shape, DataType dtype, int64_t k,
                     const ops::TopKV2Options& options = {}) {
  Graph graph;
  const Scope scope(&graph);
  ops::TopKV2(scope, ops::Placeholder(scope, dtype, shape), k, options);
  return scope.status();
}

TEST(TopK, RejectsInvalidK) {
  EXPECT_TRUE(ErrorOf({2, 3}, DT_FLOAT, 3).ok());
  EXPECT_THAT(ErrorOf({2, 3}, DT_FLOAT, 4),
              IsError(absl::StatusCode::kInvalidArgument, "k must", "[2,3]", "got 4"));
  EXPECT_THAT(ErrorOf({2, 3}, DT_FLOAT, -1),
              IsError(absl::StatusCode::kInvalidArgument, "k must", "got -1"));
  EXPECT_THAT(ErrorOf({}, DT_FLOAT, 0),
              IsError(absl::StatusCode::kInvalidArgument, "TopKV2(", "rank"));
}

TEST(TopK, RejectsIndexTypeTooSmallForDimension) {
  const Shape shape({int64_t{1} << 31});
  EXPECT_THAT(ErrorOf(shape, DT_UINT8, 1),
              IsError(absl::StatusCode::kInvalidArgument, "too large", "int32"));
  EXPECT_TRUE(ErrorOf(shape, DT_UINT8, 1, {.index_type = DT_INT64}).ok());
}

TEST(TopK, SortsNaNLast) {
  Graph graph;
  const Scope scope(&graph);
  const auto top = ops::TopKV2(scope, ops::Placeholder(scope, DT_FLOAT, {5}), 4);
  ASSERT_TRUE(scope.ok()) << scope.status();
  const Tensor input = Tensor::Vector<float>({NAN, 1, NAN, -INFINITY, 2});
  const auto got = EvaluateNode(*top.values.node, {input, Tensor::Scalar<int32_t>(4)}, {{4}, {4}},
                                CpuKernels(), {});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(Difference(Tensor::Vector<float>({2, 1, -INFINITY, NAN}), (*got)[0], {}), "");
  EXPECT_EQ(Difference(Tensor::Vector<int32_t>({4, 1, 3, 0}), (*got)[1], {}), "");
}

}  // namespace
}  // namespace mirrorflow
