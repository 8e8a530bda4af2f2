// SPDX-License-Identifier: Apache-2.0
//
// Tests what the cases in tests/references do not cover for views: which dimensions the sharding
// rule allows to be sharded, partially known shapes, and errors.
#include "ops/reshape.h"

#include "framework/graph/shape_inference.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/shape_ops.h"
#include "ops/strided_slice.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class ViewTest : public ::testing::Test {
 protected:
  Output Feed(const Shape& shape) { return ops::Placeholder(root_, DT_FLOAT, shape); }
  const Shape& ShapeOf(Output value) { return root_.shape(value); }
  absl::Status Error() { return root_.status(); }
  std::string RuleOf(Output value) {
    const absl::StatusOr<ShardingRule> rule =
        value.node->op().sharding(ShardContext(*value.node, graph_.values()));
    return rule.ok() ? rule->dims : rule.status().ToString();
  }

  Graph graph_;
  Scope root_{&graph_};
};

// --- the sharding rule of Reshape ------------------------------------------------------------

struct RuleRow {
  Shape from;
  Shape to;
  const char* dims;
};

class ReshapeRule : public ViewTest, public ::testing::WithParamInterface<RuleRow> {};

TEST_P(ReshapeRule, ShardsOutermostDimensionOfEachGroup) {
  const RuleRow& row = GetParam();
  EXPECT_EQ(RuleOf(ops::Reshape(root_, Feed(row.from), row.to)), row.dims)
      << row.from.ToString() << " to " << row.to.ToString();
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ReshapeRule,
    ::testing::Values(RuleRow{{6, 4}, {24}, "a.,.->a"},          // merge: the outermost is sharded
                      RuleRow{{24}, {6, 4}, "a,.->a."},          // split: the outermost is sharded
                      RuleRow{{6, 4}, {3, 8}, "a.,.->a."},       // both; sizes are scaled
                      RuleRow{{2, 3, 4}, {2, 12}, "ab.,.->ab"},  // two separate groups
                      RuleRow{{2, 3, 4}, {6, 4}, "a.b,.->ab"},   //
                      RuleRow{{2, 3, 4}, {2, 3, 2, 2}, "abc,.->abc."},
                      RuleRow{{4, 6}, {6, 4}, "a.,.->a."},          // one group; no common factor
                      RuleRow{{5}, {5}, "a,.->a"},                  //
                      RuleRow{{}, {}, ",.->"},                      //
                      RuleRow{{1}, {}, ".,.->"},                    // a 1 without a counterpart
                      RuleRow{{1, 5}, {5}, ".a,.->a"},              // a leading 1 is ignored
                      RuleRow{{5}, {5, 1, 1}, "a,.->a.."},          //
                      RuleRow{{2, 1, 3}, {6}, "a..,.->a"},          // a 1 inside a group
                      RuleRow{{1, 28, 28}, {1, 784}, "ba.,.->ba"},  // a batch of one
                      RuleRow{{1, 4}, {4, 1}, "ba,.->ab"},          //
                      RuleRow{{1, 1}, {1}, "a.,.->a"},              //
                      RuleRow{{0, 28, 28}, {0, 784}, "a..,.->a."},  // empty: equal leading sizes
                      RuleRow{{0, 4}, {4, 0}, "..,.->.."},          //
                      RuleRow{{3, 0}, {3, 5, 0}, "a.,.->a.."},      //
                      RuleRow{{1, 0, 3}, {0, 3}, ".ab,.->ab"}));

TEST_F(ViewTest, ExpandDimsAndSqueezeShardEveryOldDimension) {
  EXPECT_EQ(RuleOf(ops::ExpandDims(root_, Feed({2, 3}), int64_t{1})), "ab,->a.b");
  EXPECT_EQ(RuleOf(ops::Squeeze(root_, Feed({2, 1, 3, 1}))), "a.b.->ab");
}

// --- partially known shapes ------------------------------------------------------------------

TEST_F(ViewTest, ReshapeInfersOneDimensionFromOthers) {
  EXPECT_EQ(ShapeOf(ops::Reshape(root_, Feed({2, 3, 4}), {-1, 6})), Shape({4, 6}));
  EXPECT_EQ(ShapeOf(ops::Reshape(root_, Feed({0, 3}), {-1, 3})), Shape({0, 3}));
  EXPECT_EQ(ShapeOf(ops::Reshape(root_, Feed({-1, 28, 28}), {-1, 784})), Shape({-1, 784}));
  EXPECT_EQ(ShapeOf(ops::Reshape(root_, Feed(Shape::UnknownRank()), {-1, 784})), Shape({-1, 784}));
}

TEST_F(ViewTest, ReshapeAcceptsShapeComputedFromDimensions) {
  const Output x = Feed({-1, 28, 28});
  const Output batch = ops::ElementOf(root_, ops::Shape(root_, x), 0);
  const Output target = ops::Pack(root_, {batch, ops::ScalarConst(root_, DT_INT32, 784)});
  EXPECT_EQ(ShapeOf(ops::Reshape(root_, x, target)), Shape({-1, 784}));
}

TEST_F(ViewTest, ReshapeInfersSingleUnknownDimension) {
  // The first dimension is an unknown value rather than a -1, but only one size is possible.
  const Output n = ops::ElementOf(root_, ops::Shape(root_, Feed({-1})), 0);
  const Output target = ops::Pack(root_, {n, ops::ScalarConst(root_, DT_INT32, 4)});
  EXPECT_EQ(ShapeOf(ops::Reshape(root_, Feed({2, 6}), target)), Shape({3, 4}));
  const Output two = ops::Pack(root_, {n, n});
  EXPECT_EQ(ShapeOf(ops::Reshape(root_, Feed({2, 6}), two)), Shape({-1, -1}));
  EXPECT_TRUE(root_.ok()) << root_.status();
}

TEST_F(ViewTest, ReshapeToVectorOfUnknownLengthHasUnknownRank) {
  const Output target = ops::Placeholder(root_, DT_INT32, Shape({-1}));
  EXPECT_TRUE(ShapeOf(ops::Reshape(root_, Feed({2, 6}), target)).unknown_rank());
}

TEST_F(ViewTest, ViewsOfConstantsAreConstants) {
  const Output x = ops::VectorConst(root_, {7, 8});
  const Output column = ops::ExpandDims(root_, x, int64_t{1});
  const Output back = ops::Squeeze(root_, ops::Reshape(root_, column, {1, 2}));
  const Tensor& value = graph_.values().at(back).constant;
  ASSERT_TRUE(value.has_value());
  EXPECT_TRUE(Tensor::Identical(value, Tensor::Of<int32_t>({2}, {7, 8})));
}

TEST_F(ViewTest, SqueezeOfUnknownDimensionRequiresAxis) {
  EXPECT_TRUE(ShapeOf(ops::Squeeze(root_, Feed({-1, 1, 3}))).unknown_rank());
  EXPECT_EQ(ShapeOf(ops::Squeeze(root_, Feed({-1, 1, 3}), {.axis = {1}})), Shape({-1, 3}));
  EXPECT_EQ(ShapeOf(ops::Squeeze(root_, Feed({2, -1}), {.axis = {-1}})), Shape({2}));
}

TEST_F(ViewTest, ExpandDimsAtUnknownAxisAddsOneDimension) {
  const Output axis = ops::Placeholder(root_, DT_INT32, Shape());
  EXPECT_EQ(ShapeOf(ops::ExpandDims(root_, Feed({2, 3}), axis)), Shape({-1, -1, -1}));
}

TEST_F(ViewTest, ReshapeLikeAddsNoNodeForEqualShape) {
  const Output x = Feed({2, 3});
  EXPECT_EQ(ops::ReshapeLike(root_, x, Feed({2, 3})), x);
  const Output unknown = Feed({-1, 3});
  EXPECT_NE(ops::ReshapeLike(root_, unknown, Feed({-1, 3})), unknown);
  EXPECT_EQ(ShapeOf(ops::ReshapeLike(root_, x, Feed({-1, 2}))), Shape({3, 2}));
  EXPECT_EQ(ShapeOf(ops::ReshapeLike(root_, x, Feed({-1, -1, 6}))), Shape({-1, -1, 6}));
}

// --- errors ----------------------------------------------------------------------------------

TEST_F(ViewTest, ReshapeToDifferentNumberOfElementsIsError) {
  ops::Reshape(root_, Feed({2, 3}), {4, 2});
  EXPECT_THAT(Error(), IsError(kInvalid, "Reshape(Reshape)", "[2,3]", "got [4,2]"));
}

TEST_F(ViewTest, ReshapeChecksKnownDimensions) {
  ops::Reshape(root_, Feed({-1, 5}), {3, 7});  // not a multiple of 5
  EXPECT_THAT(Error(), IsError(kInvalid, "[?,5]", "got [3,7]"));
}

TEST_F(ViewTest, ReshapeWithRemainderIsError) {
  ops::Reshape(root_, Feed({2, 3}), {-1, 4});
  EXPECT_THAT(Error(), IsError(kInvalid, "[2,3]", "got [?,4]"));
}

TEST_F(ViewTest, ReshapeWithTwoInferredDimensionsIsError) {
  ops::Reshape(root_, Feed({2, 3}), {-1, -1});
  EXPECT_THAT(Error(), IsError(kInvalid, "one -1", "got [?,?]"));
}

TEST_F(ViewTest, ReshapeCannotInferDimensionNextToZero) {
  ops::Reshape(root_, Feed({0, 3}), {-1, 0});
  EXPECT_THAT(Error(), IsError(kInvalid, "[?,0]", "inferred"));
}

TEST_F(ViewTest, ReshapeToNegativeSizeIsError) {
  ops::Reshape(root_, Feed({2, 3}), ops::VectorConst(root_, {-2, 3}));
  EXPECT_THAT(Error(), IsError(kInvalid, "Reshape(Reshape)", "dimensions", ">= 0"));
}

TEST_F(ViewTest, ExpandDimsBeyondRankIsError) {
  ops::ExpandDims(root_, Feed({2, 3}), int64_t{3});
  EXPECT_THAT(Error(), IsError(kInvalid, "dim", "[-3, 3)", "got 3"));
}

TEST_F(ViewTest, ExpandDimsBeyondMaximumRankIsError) {
  ops::ExpandDims(root_, Feed({1, 1, 1, 1, 1, 1, 1, 1}), int64_t{0});
  EXPECT_THAT(Error(), IsError(kInvalid, "rank", "at most 8", "got 9"));
}

TEST_F(ViewTest, SqueezeOfDimensionLargerThanOneIsError) {
  ops::Squeeze(root_, Feed({2, 3}), {.axis = {1}});
  EXPECT_THAT(Error(), IsError(kInvalid, "Squeeze(Squeeze)", "dimension 1", "got [2,3]"));
}

}  // namespace
}  // namespace mirrorflow
