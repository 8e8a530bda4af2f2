// SPDX-License-Identifier: Apache-2.0
//
// Tests kernels that take indices as data: errors for an index out of range, and one replica's
// shard of a Range.
#include "framework/runtime/evaluate_node.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/dynamic_stitch.h"
#include "ops/gather.h"
#include "ops/shape_ops.h"
#include "ops/transpose.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class IndexingKernel : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<Tensor>> Run(Output value, absl::Span<const Tensor> inputs,
                                          const EvaluateOptions& options = {}) {
    return EvaluateNode(*value.node, inputs, {root_.shape(value)}, CpuKernels(), options);
  }
  absl::Status Error(Output value, absl::Span<const Tensor> inputs) {
    return Run(value, inputs).status();
  }
  Output Feed(const Tensor& like) { return ops::Placeholder(root_, like.dtype(), like.shape()); }

  Graph graph_;
  Scope root_{&graph_};
};

TEST_F(IndexingKernel, GatherErrorNamesIndexPositionAndRange) {
  const Tensor params = Tensor::Of<float>({3, 1}, {1, 2, 3});
  const Tensor axis = Tensor::Scalar<int32_t>(0);
  for (const int64_t wrong : {int64_t{3}, int64_t{-1}, int64_t{1} << 40}) {
    const Tensor indices = Tensor::Of<int64_t>({2, 2}, {0, 2, wrong, 99});
    const Output y = ops::GatherV2(root_, Feed(params), Feed(indices), ops::Const(root_, axis));
    EXPECT_THAT(Error(y, {params, indices, axis}),
                IsError(kInvalid, "indices[1,0]", "[0, 3)", absl::StrCat("got ", wrong)));
  }
}

TEST_F(IndexingKernel, GatherErrorOmitsPositionOfScalarIndex) {
  const Tensor params = Tensor::Of<float>({0}, {}), index = Tensor::Scalar<int32_t>(0);
  const Output y = ops::GatherV2(root_, Feed(params), Feed(index), ops::Const(root_, index));
  EXPECT_THAT(Error(y, {params, index, index}), IsError(kInvalid, "indices", "[0, 0)", "got 0"));
}

TEST_F(IndexingKernel, SegmentSumErrorNamesIdOutOfRange) {
  const Tensor data = Tensor::Of<float>({3}, {1, 2, 3});
  const Tensor ids = Tensor::Of<int32_t>({3}, {-5, 1, 2}), count = Tensor::Scalar<int32_t>(2);
  const Output y = ops::UnsortedSegmentSum(root_, Feed(data), Feed(ids), ops::Const(root_, count));
  EXPECT_THAT(Error(y, {data, ids, count}), IsError(kInvalid, "segment_ids[2]", "got 2"));
}

TEST_F(IndexingKernel, SegmentSumsOfIntegersWrapAround) {
  const Tensor data = Tensor::Of<int32_t>({2}, {INT32_MAX, 1});
  const Tensor ids = Tensor::Of<int32_t>({2}, {0, 0}), count = Tensor::Scalar<int32_t>(1);
  const Output y = ops::UnsortedSegmentSum(root_, Feed(data), Feed(ids), ops::Const(root_, count));
  const auto sum = Run(y, {data, ids, count});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ((*sum)[0].scalar<int32_t>(), INT32_MIN);
}

TEST_F(IndexingKernel, InvertPermutationErrorNamesElement) {
  const Output y = ops::InvertPermutation(root_, Feed(Tensor::Of<int32_t>({3}, {0, 1, 2})));
  EXPECT_THAT(Error(y, {Tensor::Of<int32_t>({3}, {0, 3, 1})}),
              IsError(kInvalid, "x must", "x[1] = 3"));
  EXPECT_THAT(Error(y, {Tensor::Of<int32_t>({3}, {2, 0, 2})}),
              IsError(kInvalid, "x must", "x[2] = 2", "second time"));
}

TEST_F(IndexingKernel, StitchZeroFillsRowsWithoutIndex) {
  const Tensor indices = Tensor::Of<int32_t>({2}, {3, 1});
  const Tensor data = Tensor::Of<float>({2}, {30, 10});
  const Output y = ops::DynamicStitch(root_, {ops::Const(root_, indices)}, {Feed(data)});
  const auto merged = Run(y, {indices, data});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_TRUE(Tensor::Identical((*merged)[0], Tensor::Of<float>({4}, {0, 10, 0, 30})));
}

TEST_F(IndexingKernel, ShardOfRangeStartsAtItsFirstRow) {
  const Tensor start = Tensor::Scalar<float>(1), limit = Tensor::Scalar<float>(7),
               delta = Tensor::Scalar<float>(0.5);
  const Output y = ops::Range(root_, ops::Const(root_, start), ops::Const(root_, limit),
                              ops::Const(root_, delta));
  EXPECT_EQ(root_.shape(y), Shape({12}));
  // This is the second of two replicas. It holds rows 2 and 3, with 3 elements each.
  const Sharding sharding = Sharded{/*axis=*/1, /*dim=*/0, /*factor=*/3};
  EvaluateOptions options;
  options.params.first_row[1] = 2;
  options.output_shardings = absl::MakeConstSpan(&sharding, 1);
  const auto local =
      EvaluateNode(*y.node, {start, limit, delta}, {Shape({6})}, CpuKernels(), options);
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_TRUE(Tensor::Identical((*local)[0], Tensor::Of<float>({6}, {4, 4.5, 5, 5.5, 6, 6.5})));
}

}  // namespace
}  // namespace mirrorflow
