// SPDX-License-Identifier: Apache-2.0
#include "framework/graph/shape_inference.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"
#include "tests/support/test_ops.h"

namespace mirrorflow {
namespace {

using ::testing::ElementsAre;

class ShapeInferenceTest : public ::testing::Test {
 protected:
  Output Placeholder(DataType dtype, Shape shape) {
    return Apply(root_, "Placeholder", {}, {{"dtype", dtype}, {"shape", std::move(shape)}});
  }
  Output Const(Tensor value) {
    const DataType dtype = value.dtype();
    return Apply(root_, "Const", {}, {{"dtype", dtype}, {"value", std::move(value)}});
  }
  Output Reshape(Output shape) {
    return Apply(root_.WithName("reshape"), "Reshape",
                 {Placeholder(DT_FLOAT, Shape::UnknownRank()), shape}, {{"Tshape", shape.dtype()}});
  }
  const ValueInfo& Info(Output output) { return graph_.values().at(output); }

  Graph graph_;
  Scope root_{&graph_};
};

TEST_F(ShapeInferenceTest, ValueOfConstantIsKnown) {
  const Output c = Const(Tensor::Vector<int32_t>({3, 4}));
  EXPECT_EQ(Info(c).shape, Shape({2}));
  EXPECT_THAT(Info(c).constant.flat<int32_t>(), ElementsAre(3, 4));
}

TEST_F(ShapeInferenceTest, ConstantShapeInputDeterminesShape) {
  EXPECT_EQ(root_.shape(Reshape(Const(Tensor::Vector<int32_t>({-1, 4})))), Shape({-1, 4}));
  EXPECT_EQ(root_.shape(Reshape(Const(Tensor::Vector<int64_t>({5})))), Shape({5}));
}

TEST_F(ShapeInferenceTest, PartiallyKnownShapePropagatesThroughIntegerVector) {
  const Output shape = Apply(root_, "Shape", {Placeholder(DT_FLOAT, {-1, 784})});
  EXPECT_EQ(Info(shape).shape, Shape({2}));
  EXPECT_FALSE(Info(shape).constant.has_value());
  EXPECT_EQ(root_.shape(Reshape(shape)), Shape({-1, 784}));
}

TEST_F(ShapeInferenceTest, FullyKnownShapeIsAConstantOfEitherIntegerType) {
  const Output x = Placeholder(DT_FLOAT, {2, 3});
  for (DataType dtype : {DT_INT32, DT_INT64}) {
    const Output shape = Apply(root_, "Shape", {x}, {{"out_type", dtype}});
    EXPECT_EQ(Info(shape).constant.dtype(), dtype);
    EXPECT_THAT(*IntegersOf(Info(shape).constant), ElementsAre(2, 3));
  }
}

TEST_F(ShapeInferenceTest, LengthOfUnknownShapeInputDeterminesRank) {
  EXPECT_EQ(root_.shape(Reshape(Placeholder(DT_INT32, {3}))), Shape::UnknownDims(3));
  EXPECT_EQ(root_.shape(Reshape(Placeholder(DT_INT32, {-1}))), Shape::UnknownRank());
  EXPECT_EQ(root_.shape(Reshape(Placeholder(DT_INT32, Shape::UnknownRank()))),
            Shape::UnknownRank());
  EXPECT_EQ(
      root_.shape(Reshape(Apply(root_, "Shape", {Placeholder(DT_FLOAT, Shape::UnknownRank())}))),
      Shape::UnknownRank());
}

TEST_F(ShapeInferenceTest, MatrixIsNotAcceptedAsShape) {
  Reshape(Const(Tensor::Of<int32_t>({1, 1}, {3})));
  EXPECT_THAT(root_.status(),
              IsError(absl::StatusCode::kInvalidArgument, "input 1", "vector", "shape [1,1]"));
}

TEST_F(ShapeInferenceTest, ShapeWithDimensionBelowMinusOneIsRejected) {
  Reshape(Const(Tensor::Vector<int32_t>({2, -2})));
  EXPECT_THAT(root_.status(), IsError(absl::StatusCode::kInvalidArgument, "Reshape(reshape)",
                                      "dimensions", ">= 0"));
}

TEST_F(ShapeInferenceTest, ShapeOfTooHighRankIsRejected) {
  Reshape(Placeholder(DT_INT32, {kMaxRank + 1}));
  EXPECT_THAT(root_.status(),
              IsError(absl::StatusCode::kInvalidArgument, "rank", "at most 8", "got 9"));
}

TEST_F(ShapeInferenceTest, ErrorForOversizedOutputNamesNode) {
  Reshape(Const(Tensor::Vector<int64_t>({int64_t{1} << 31, int64_t{1} << 31})));
  EXPECT_THAT(root_.status(),
              IsError(absl::StatusCode::kInvalidArgument, "Reshape(reshape)", "byte size"));
}

TEST_F(ShapeInferenceTest, WithRankAcceptsUnknownRank) {
  const Output x = Placeholder(DT_FLOAT, Shape::UnknownRank());
  const Output y = Placeholder(DT_FLOAT, {3, 5});
  EXPECT_EQ(root_.shape(Apply(root_, "MatMul", {x, y})), Shape({-1, 5}));
}

TEST_F(ShapeInferenceTest, WithRankNamesInputAndShape) {
  const Output x = Placeholder(DT_FLOAT, {3});
  Apply(root_.WithName("product"), "MatMul", {x, x});
  EXPECT_THAT(root_.status(), IsError(absl::StatusCode::kInvalidArgument, "MatMul(product)",
                                      "input 0", "rank 2", "shape [3]"));
}

TEST_F(ShapeInferenceTest, WithRankAtLeastNamesInputAndShape) {
  const Output axis = Const(Tensor::Scalar<int32_t>(0));
  const Output x = Placeholder(DT_FLOAT, {});
  Apply(root_.WithName("split"), "Split", {axis, x}, {{"num_split", 2}});
  EXPECT_THAT(root_.status(), IsError(absl::StatusCode::kInvalidArgument, "Split(split)", "input 1",
                                      "at least 1", "shape []"));
}

TEST_F(ShapeInferenceTest, HandleCarriesDtypeAndShapeOfVariable) {
  const Output v = Apply(root_, "VarHandleOp", {}, {{"dtype", DT_FLOAT}, {"shape", Shape({7})}});
  EXPECT_EQ(Info(v).shape, Shape());
  EXPECT_EQ(Info(v).handle_dtype, DT_FLOAT);
  EXPECT_EQ(root_.shape(Apply(root_, "ReadVariableOp", {v}, {{"dtype", DT_FLOAT}})), Shape({7}));
}

TEST_F(ShapeInferenceTest, ShapeIsUnknownBeforeInferAndAfterForget) {
  const Output x = Placeholder(DT_FLOAT, {2});
  ShapeTable table;
  EXPECT_EQ(table.shape(x), Shape::UnknownRank());
  ASSERT_TRUE(table.Infer(*x.node).ok());
  EXPECT_EQ(table.shape(x), Shape({2}));
  table.Forget(*x.node);
  EXPECT_EQ(table.shape(x), Shape::UnknownRank());
}

TEST_F(ShapeInferenceTest, SetOverwritesEntry) {
  const Output x = Placeholder(DT_FLOAT, {-1});
  ValueInfo info;
  info.shape = Shape({4});
  graph_.values().Set(x, info);
  EXPECT_EQ(root_.shape(x), Shape({4}));
}

TEST(NormalizeAxisTest, CountsNegativeAxesFromEnd) {
  EXPECT_EQ(*NormalizeAxis(-1, 3), 2);
  EXPECT_EQ(*NormalizeAxis(2, 3), 2);
  EXPECT_EQ(*NormalizeAxis(-3, 3), 0);
}

TEST(NormalizeAxisTest, ErrorNamesValidRange) {
  EXPECT_THAT(NormalizeAxis(3, 3).status(),
              IsError(absl::StatusCode::kInvalidArgument, "axis", "[-3, 3)", "got 3"));
  EXPECT_THAT(NormalizeAxis(-4, 3, "dim").status(),
              IsError(absl::StatusCode::kInvalidArgument, "dim", "[-3, 3)", "got -4"));
  EXPECT_THAT(NormalizeAxis(0, 0).status(),
              IsError(absl::StatusCode::kInvalidArgument, "axis", "[0, 0)", "got 0"));
}

}  // namespace
}  // namespace mirrorflow
