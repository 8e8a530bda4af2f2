// SPDX-License-Identifier: Apache-2.0
#include "framework/core/shape.h"

#include <limits>

#include "absl/hash/hash.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(ShapeTest, PrintsScalarsUnknownDimensionsAndUnknownRank) {
  EXPECT_EQ(Shape().ToString(), "[]");
  EXPECT_EQ(Shape({2, -1, 0}).ToString(), "[2,?,0]");
  EXPECT_EQ(Shape::UnknownRank().ToString(), "[*]");
  EXPECT_EQ(Shape::UnknownDims(2).ToString(), "[?,?]");
}

TEST(ShapeTest, UnknownDimensionsAreNotFullyDefined) {
  EXPECT_TRUE(Shape().IsFullyDefined());
  EXPECT_TRUE(Shape({0, 3}).IsFullyDefined());
  EXPECT_FALSE(Shape({-1, 3}).IsFullyDefined());
  EXPECT_FALSE(Shape::UnknownRank().IsFullyDefined());
}

TEST(ShapeTest, NumElementsIsProductOfDimensions) {
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape({2, 3, 4}).num_elements(), 24);
  EXPECT_EQ(Shape({2, 0, 4}).num_elements(), 0);
}

TEST(ShapeTest, ScalarDiffersFromUnknownRank) {
  EXPECT_NE(Shape(), Shape::UnknownRank());
  EXPECT_EQ(Shape({1, 2}), Shape(absl::Span<const int64_t>({1, 2})));
  EXPECT_NE(absl::HashOf(Shape()), absl::HashOf(Shape::UnknownRank()));
}

TEST(ShapeValidateTest, AcceptsUnknownsAndMaximumRank) {
  EXPECT_TRUE(Shape({-1, 0, 5}).Validate(DT_FLOAT).ok());
  EXPECT_TRUE(Shape::UnknownRank().Validate(DT_FLOAT).ok());
  EXPECT_TRUE(Shape::UnknownDims(kMaxRank).Validate(DT_FLOAT).ok());
}

TEST(ShapeValidateTest, RejectsRankAboveLimit) {
  EXPECT_THAT(Shape::UnknownDims(kMaxRank + 1).Validate(DT_FLOAT),
              IsError(absl::StatusCode::kInvalidArgument, "at most 8", "got 9"));
}

TEST(ShapeValidateTest, RejectsDimensionsBelowMinusOne) {
  EXPECT_THAT(Shape({2, -2}).Validate(DT_FLOAT),
              IsError(absl::StatusCode::kInvalidArgument, "got [2,-2]"));
}

TEST(ShapeValidateTest, RejectsByteSizeThatOverflows) {
  const Shape shape({int64_t{1} << 31, int64_t{1} << 30});
  EXPECT_TRUE(shape.Validate(DT_UINT8).ok());
  EXPECT_THAT(shape.Validate(DT_FLOAT),
              IsError(absl::StatusCode::kInvalidArgument, "float[2147483648,1073741824]"));
  EXPECT_THAT(
      Shape({kMax}).Validate(DT_DOUBLE),
      IsError(absl::StatusCode::kInvalidArgument, "double[9223372036854775807]", "overflows"));
}

TEST(ShapeValidateTest, RejectsEmptyTensorWhoseStridesOverflow) {
  EXPECT_THAT(Shape({0, kMax, kMax}).Validate(DT_UINT8),
              IsError(absl::StatusCode::kInvalidArgument, "uint8[0,", "overflows"));
}

TEST(ShapeMergeTest, CombinesDimensionsKnownOnEitherSide) {
  EXPECT_EQ(*Shape({-1, 3}).MergeWith(Shape({2, -1})), Shape({2, 3}));
  EXPECT_EQ(*Shape::UnknownRank().MergeWith(Shape({2, -1})), Shape({2, -1}));
  EXPECT_EQ(*Shape({2, -1}).MergeWith(Shape::UnknownRank()), Shape({2, -1}));
}

TEST(ShapeMergeTest, ErrorNamesBothContradictoryShapes) {
  EXPECT_THAT(Shape({2, 3}).MergeWith(Shape({2, 4})).status(),
              IsError(absl::StatusCode::kInvalidArgument, "[2,3] and [2,4]", "incompatible"));
  EXPECT_THAT(Shape({2}).MergeWith(Shape({2, 1})).status(),
              IsError(absl::StatusCode::kInvalidArgument, "[2] and [2,1]", "incompatible"));
}

TEST(ShapeTest, CompatibleIfSomeShapeMatchesBoth) {
  EXPECT_TRUE(Shape({-1, 3}).IsCompatibleWith(Shape({2, -1})));
  EXPECT_TRUE(Shape::UnknownRank().IsCompatibleWith(Shape()));
  EXPECT_FALSE(Shape({1}).IsCompatibleWith(Shape({2})));
  EXPECT_FALSE(Shape().IsCompatibleWith(Shape({1})));
}

TEST(CheckedMultiplyTest, FailsInsteadOfOverflowing) {
  EXPECT_EQ(*CheckedMultiply(kMax, 1), kMax);
  EXPECT_EQ(*CheckedMultiply(kMax, 0), 0);
  EXPECT_THAT(CheckedMultiply(kMax, 2).status(),
              IsError(absl::StatusCode::kInvalidArgument, " * 2", "overflows"));
}

struct BroadcastCase {
  Shape a, b, expected;
};

TEST(BroadcastShapesTest, FollowsNumPyEvenForUnknownDimensions) {
  const BroadcastCase cases[] = {
      {{}, {}, {}},
      {{2, 3}, {}, {2, 3}},
      {{2, 3}, {3}, {2, 3}},
      {{2, 1}, {1, 3}, {2, 3}},
      {{4, 1, 3}, {5, 1}, {4, 5, 3}},
      {{0, 3}, {1, 3}, {0, 3}},
      {{1}, {0}, {0}},
      {{-1}, {1}, {-1}},   // 1 broadcasts to any size
      {{-1}, {3}, {3}},    // the unknown dimension is 1 or 3
      {{-1}, {-1}, {-1}},  // the dimensions may differ
      {{-1, 1}, {2, -1}, {2, -1}},
      {Shape::UnknownRank(), {2}, Shape::UnknownRank()},
  };
  for (const BroadcastCase& c : cases) {
    for (const auto& shape : {BroadcastShapes(c.a, c.b), BroadcastShapes(c.b, c.a)}) {
      ASSERT_TRUE(shape.ok()) << c.a.ToString() << " " << c.b.ToString();
      EXPECT_EQ(*shape, c.expected)
          << c.a.ToString() << " " << c.b.ToString() << " gave " << shape->ToString();
    }
  }
}

TEST(BroadcastShapesTest, ErrorNamesIncompatibleShapes) {
  EXPECT_THAT(BroadcastShapes({2, 3}, {2}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "[2,3] and [2]", "broadcast"));
  EXPECT_THAT(BroadcastShapes({0}, {2}).status(),
              IsError(absl::StatusCode::kInvalidArgument, "[0] and [2]", "broadcast"));
}

}  // namespace
}  // namespace mirrorflow
