// SPDX-License-Identifier: Apache-2.0
//
// Tests the errors of neural-network ops, and their shape inference from partially known shapes.
#include <functional>

#include "framework/graph/shape_inference.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/avg_pool.h"
#include "ops/bias_add.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/conv2d.h"
#include "ops/depthwise_conv2d.h"
#include "ops/matmul.h"
#include "ops/max_pool.h"
#include "ops/softmax.h"
#include "ops/softmax_xent.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr int64_t kOnes[] = {1, 1, 1, 1};
constexpr int64_t kTwos[] = {1, 2, 2, 1};

Output Feed(const Scope& s, const Shape& shape, DataType dtype = DT_FLOAT) {
  return ops::Placeholder(s, dtype, shape);
}
Output Images(const Scope& s) { return Feed(s, {2, 5, 5, 3}); }
Output Filter(const Scope& s) { return Feed(s, {3, 3, 3, 4}); }

struct ErrorRow {
  const char* name;
  absl::StatusCode code;
  const char* place;
  const char* token;
  std::function<void(const Scope&)> build;
};

class NnErrors : public ::testing::TestWithParam<ErrorRow> {};

TEST_P(NnErrors, ErrorNamesTheCause) {
  Graph graph;
  const Scope scope(&graph);
  GetParam().build(scope);
  EXPECT_THAT(scope.status(), IsError(GetParam().code, GetParam().place, GetParam().token));
}

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnimplemented = absl::StatusCode::kUnimplemented;

INSTANTIATE_TEST_SUITE_P(
    Ops, NnErrors,
    ::testing::
        Values(ErrorRow{"BiasAddOfVector", kInvalid, "input 0", "got shape [3]",
                        [](const Scope& s) { ops::BiasAdd(s, Feed(s, {3}), Feed(s, {3})); }},
               ErrorRow{"BiasAddOfWrongLength", kInvalid, "value [2,3]", "got [4]",
                        [](const Scope& s) {
                          ops::BiasAdd(s, Feed(s, {2, 3}), Feed(s, {4}));
                        }},
               ErrorRow{"BiasAddOfWrongLengthInNchw", kInvalid, "dimension 1", "value [2,5,5,3]",
                        [](const Scope& s) {
                          ops::BiasAdd(s, Images(s), Feed(s, {3}), {.data_format = "NCHW"});
                        }},
               ErrorRow{"BatchMatMulOfIncompatibleBatches", kInvalid, "[2] and [3]", "broadcast",
                        [](const Scope& s) {
                          ops::BatchMatMulV2(s, Feed(s, {2, 2, 3}), Feed(s, {3, 3, 2}));
                        }},
               ErrorRow{"BatchMatMulOfDifferentInnerDimensions", kInvalid, "inner dimensions",
                        "[2,2,3] and [2,2,3]",
                        [](const Scope& s) {
                          ops::BatchMatMulV2(s, Feed(s, {2, 2, 3}), Feed(s, {2, 2, 3}));
                        }},
               ErrorRow{"BatchMatMulOfVector", kInvalid, "rank", "at least 2",
                        [](const Scope& s) {
                          ops::BatchMatMulV2(s, Feed(s, {3}), Feed(s, {3, 2}));
                        }},
               ErrorRow{"CrossEntropyOfRankThree", kInvalid, "broadcast", "matrix",
                        [](const Scope& s) {
                          ops::SoftmaxCrossEntropyWithLogits(s, Feed(s, {2, 3, 4}), Feed(s, {4}));
                        }},
               ErrorRow{"Conv2DInNchwOfWrongChannels", kInvalid, "channels", "images",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Filter(s), kOnes, "SAME",
                                      {.data_format = "NCHW"});
                        }},
               ErrorRow{"Conv2DInNchwWithStridesOverChannels", kUnimplemented, "[1, 1, …, …]", "",
                        [](const Scope& s) {
                          ops::Conv2D(s, Feed(s, {2, 3, 5, 5}), Filter(s), kTwos, "SAME",
                                      {.data_format = "NCHW"});
                        }},
               ErrorRow{"Conv2DWithDilatedChannels", kUnimplemented, "dilations",
                        "batch or channels",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Filter(s), kOnes, "SAME",
                                      {.dilations = {1, 1, 1, 2}});
                        }},
               ErrorRow{"Conv2DWithTooLargeDilatedFilter", kInvalid, "at most 5", "got 7",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Filter(s), kOnes, "VALID",
                                      {.dilations = {1, 3, 1, 1}});
                        }},
               ErrorRow{"Conv2DWithTwoPaddings", kInvalid, "8 elements", "got [1, 1]",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Filter(s), kOnes, "EXPLICIT",
                                      {.explicit_paddings = {1, 1}});
                        }},
               ErrorRow{"Conv2DWithNegativePaddings", kInvalid, "explicit_paddings", ">= 0",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Filter(s), kOnes, "EXPLICIT",
                                      {.explicit_paddings = {0, 0, -1, 1, 1, 1, 0, 0}});
                        }},
               ErrorRow{"Conv2DWithPaddedChannels", kInvalid, "batch and channels", "be 0",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Filter(s), kOnes, "EXPLICIT",
                                      {.explicit_paddings = {0, 0, 1, 1, 1, 1, 0, 1}});
                        }},
               ErrorRow{"Conv2DWithRedundantPaddings", kInvalid, "empty", "padding is SAME",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Filter(s), kOnes, "SAME",
                                      {.explicit_paddings = {0, 0, 1, 1, 1, 1, 0, 0}});
                        }},
               ErrorRow{
                   "Conv2DWithUnknownPadding", kInvalid, "'padding'", "one of",
                   [](const Scope& s) { ops::Conv2D(s, Images(s), Filter(s), kOnes, "FULL"); }},
               ErrorRow{"Conv2DWithStridesOverBatch", kUnimplemented, "strides",
                        "batch or channels",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Filter(s), {2, 1, 1, 1}, "SAME");
                        }},
               ErrorRow{"Conv2DWithTwoStrides", kInvalid, "4 elements", "got [2, 2]",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Filter(s), {2, 2}, "SAME");
                        }},
               ErrorRow{"Conv2DWithStrideZero", kInvalid, "strides", "positive",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Filter(s), {1, 0, 1, 1}, "SAME");
                        }},
               ErrorRow{
                   "Conv2DWithHugeStride", kInvalid, "strides", "32-bit",
                   [](const Scope& s) {
                     ops::Conv2D(s, Images(s), Filter(s), {1, int64_t{1} << 62, 1, 1}, "VALID");
                   }},
               ErrorRow{"Conv2DOfWrongChannels", kInvalid, "channels", "images",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Feed(s, {3, 3, 2, 4}), kOnes, "SAME");
                        }},
               ErrorRow{"Conv2DInUnequalGroups", kInvalid, "3 groups", "got 4",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Feed(s, {3, 3, 1, 4}), kOnes, "SAME");
                        }},
               ErrorRow{"Conv2DWithoutChannels", kInvalid, "multiple of 0", "got 3",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Feed(s, {3, 3, 0, 4}), kOnes, "SAME");
                        }},
               ErrorRow{"Conv2DWithTooLargeFilter", kInvalid, "at most 5", "got 7",
                        [](const Scope& s) {
                          ops::Conv2D(s, Images(s), Feed(s, {7, 3, 3, 4}), kOnes, "VALID");
                        }},
               ErrorRow{
                   "Conv2DWithEmptyFilter", kInvalid, "window", "empty",
                   [](const Scope&
                          s) { ops::Conv2D(s, Images(s), Feed(s, {0, 3, 3, 4}), kOnes, "SAME"); }},
               ErrorRow{
                   "DepthwiseConvOfWrongChannels", kInvalid, "expected 2", "got 3",
                   [](const Scope& s) {
                     ops::DepthwiseConv2dNative(s, Images(s), Feed(s, {3, 3, 2, 4}), kOnes, "SAME");
                   }},
               ErrorRow{"DepthwiseBackpropOfWrongGradient", kInvalid, "[2,5,5,12]", "got [2,5,5,3]",
                        [](const Scope& s) {
                          ops::DepthwiseConv2dNativeBackpropInput(
                              s, ops::VectorConst(s, {2, 5, 5, 3}), Filter(s), Images(s), kOnes,
                              "SAME");
                        }},
               ErrorRow{"BackpropInputOfWrongGradient", kInvalid, "[2,5,5,4]", "got [2,4,4,4]",
                        [](const Scope& s) {
                          const Output sizes = ops::VectorConst(s, {2, 5, 5, 3});
                          ops::Conv2DBackpropInput(s, sizes, Filter(s), Feed(s, {2, 4, 4, 4}),
                                                   kOnes, "SAME");
                        }},
               ErrorRow{"BackpropInputOfTwoSizes", kInvalid, "input_sizes", "got [5,5]",
                        [](const Scope& s) {
                          ops::Conv2DBackpropInput(s, ops::VectorConst(s, {5, 5}), Filter(s),
                                                   Feed(s, {2, 5, 5, 4}), kOnes, "SAME");
                        }},
               ErrorRow{"BackpropFilterOfWrongGradient", kInvalid, "[2,5,5,4]", "got [3,5,5,4]",
                        [](const Scope& s) {
                          const Output sizes = ops::VectorConst(s, {3, 3, 3, 4});
                          ops::Conv2DBackpropFilter(s, Images(s), sizes, Feed(s, {3, 5, 5, 4}),
                                                    kOnes, "SAME");
                        }},
               ErrorRow{"MaxPoolOverChannels", kUnimplemented, "ksize", "batch or channels",
                        [](const Scope& s) {
                          ops::MaxPool(s, Images(s), {1, 1, 1, 3}, kOnes, "VALID");
                        }},
               ErrorRow{"MaxPoolOfPaddingOnly", kInvalid, "window", "in every window",
                        [](const Scope& s) {
                          ops::MaxPool(s, Images(s), kTwos, kOnes, "EXPLICIT",
                                       {.explicit_paddings = {0, 0, 2, 0, 0, 0, 0, 0}});
                        }},
               ErrorRow{"MaxPoolOfEmptyImages", kInvalid, "window", "in every window",
                        [](const Scope& s) {
                          ops::MaxPool(s, Feed(s, {2, 0, 3, 1}), kTwos, kOnes, "EXPLICIT",
                                       {.explicit_paddings = {0, 0, 1, 1, 0, 0, 0, 0}});
                        }},
               ErrorRow{"MaxPoolInNchwVectC", kUnimplemented, "NHWC or NCHW", "got NCHW_VECT_C",
                        [](const Scope& s) {
                          ops::MaxPool(s, Images(s), kTwos, kTwos, "VALID",
                                       {.data_format = "NCHW_VECT_C"});
                        }},
               ErrorRow{"AvgPoolGradOfWrongShape", kInvalid, "[2,2,2,3]", "got [2,3,3,3]",
                        [](const Scope& s) {
                          ops::AvgPoolGrad(s, ops::VectorConst(s, {2, 5, 5, 3}),
                                           Feed(s, {2, 3, 3, 3}), kTwos, kTwos, "VALID");
                        }},
               ErrorRow{"AvgPoolGradOfTwoSizes", kInvalid, "4 elements", "got [5,5]",
                        [](const Scope& s) {
                          ops::AvgPoolGrad(s, ops::VectorConst(s, {5, 5}), Feed(s, {2, 3, 3, 3}),
                                           kTwos, kTwos, "VALID");
                        }},
               ErrorRow{"MaxPoolOfMatrix", kInvalid, "input 0", "got shape [2,3]",
                        [](const Scope& s) {
                          ops::MaxPool(s, Feed(s, {2, 3}), kTwos, kTwos, "VALID");
                        }},
               ErrorRow{"MaxPoolGradOfWrongOutput", kInvalid, "[2,2,2,3]", "got [2,3,3,3]",
                        [](const Scope& s) {
                          ops::MaxPoolGrad(s, Images(s), Feed(s, {2, 3, 3, 3}),
                                           Feed(s, {2, 2, 2, 3}), kTwos, kTwos, "VALID");
                        }},
               ErrorRow{"SoftmaxOfScalar", kInvalid, "rank", "at least 1",
                        [](const Scope& s) { ops::Softmax(s, Feed(s, {})); }},
               ErrorRow{"EntropyOfWrongRows", kInvalid, "features [2,3]", "got [3]",
                        [](const Scope& s) {
                          ops::SparseSoftmaxCrossEntropyWithLogits(s, Feed(s, {2, 3}),
                                                                   Feed(s, {3}, DT_INT32));
                        }},
               ErrorRow{"EntropyWithoutClasses", kInvalid, "one class", "got [2,0]",
                        [](const Scope& s) {
                          ops::SparseSoftmaxCrossEntropyWithLogits(s, Feed(s, {2, 0}),
                                                                   Feed(s, {2}, DT_INT32));
                        }},
               ErrorRow{"EntropyOfFloatLabels", kInvalid, "'Tlabels'", "one of",
                        [](const Scope& s) {
                          ops::SparseSoftmaxCrossEntropyWithLogits(s, Feed(s, {2, 3}),
                                                                   Feed(s, {2}));
                        }}),
    [](const auto& info) { return info.param.name; });

class NnShapes : public ::testing::Test {
 protected:
  Graph graph_;
  Scope root_{&graph_};
};

TEST_F(NnShapes, UnknownBatchStaysUnknown) {
  const Output x = Feed(root_, {-1, 28, 28, 1});
  const Output y = ops::Conv2D(root_, x, Feed(root_, {3, 3, 1, 32}), kOnes, "SAME");
  const Output pooled = ops::MaxPool(root_, y, kTwos, kTwos, "VALID");
  EXPECT_EQ(root_.shape(y), Shape({-1, 28, 28, 32}));
  EXPECT_EQ(root_.shape(pooled), Shape({-1, 14, 14, 32}));
}

TEST_F(NnShapes, BiasDeterminesChannels) {
  EXPECT_EQ(root_.shape(ops::BiasAdd(root_, Feed(root_, {-1, -1}), Feed(root_, {7}))),
            Shape({-1, 7}));
}

TEST_F(NnShapes, LabelsDetermineRows) {
  const auto xent = ops::SparseSoftmaxCrossEntropyWithLogits(root_, Feed(root_, {-1, 10}),
                                                             Feed(root_, {64}, DT_INT64));
  EXPECT_EQ(root_.shape(xent.loss), Shape({64}));
  EXPECT_EQ(root_.shape(xent.backprop), Shape({64, 10}));
}

TEST_F(NnShapes, ShapesFollowDataFormat) {
  const Output x = Feed(root_, {-1, 3, 28, 30});
  const Output y = ops::Conv2D(root_, x, Feed(root_, {3, 3, 3, 8}), kOnes, "VALID",
                               {.data_format = "NCHW", .dilations = {1, 1, 2, 3}});
  EXPECT_EQ(root_.shape(y), Shape({-1, 8, 24, 24}));
  constexpr int64_t kHalves[] = {1, 1, 2, 2};
  EXPECT_EQ(root_.shape(ops::MaxPool(root_, y, kHalves, kHalves, "VALID", {.data_format = "NCHW"})),
            Shape({-1, 8, 12, 12}));
}

// As in TensorFlow, a filter that is slightly larger than the image gives no rows.
TEST_F(NnShapes, WindowLargerThanImageGivesNoRows) {
  const Output y = ops::Conv2D(root_, Feed(root_, {2, 2, 5, 3}), Filter(root_), kOnes, "VALID");
  EXPECT_EQ(root_.shape(y), Shape({2, 0, 3, 4}));
}

}  // namespace
}  // namespace mirrorflow
