// SPDX-License-Identifier: Apache-2.0
//
// Tests how partially known shapes and their dimensions propagate through the array ops, and the
// errors of the shape functions.
#include <cmath>
#include <optional>
#include <vector>

#include "framework/graph/shape_inference.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/dynamic_stitch.h"
#include "ops/gather.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/slice.h"
#include "ops/strided_slice.h"
#include "ops/tile.h"
#include "ops/transpose.h"
#include "tests/support/is_error.h"

namespace mirrorflow {
namespace {

class ShapeArithmetic : public ::testing::Test {
 protected:
  Output Feed(const Shape& shape, DataType dtype = DT_FLOAT) {
    return ops::Placeholder(root_, dtype, shape);
  }
  Output Vector(absl::Span<const int64_t> values) { return ops::VectorConst(root_, values); }
  Output Scalar(int64_t value) { return ops::ScalarConst(root_, DT_INT32, double(value)); }
  const Shape& ShapeOf(Output value) { return root_.shape(value); }
  // Returns what is known about the shape that the vector `value` holds: the inferred shape of a
  // Fill with it.
  Shape Held(Output value) { return ShapeOf(ops::Fill(root_, value, Scalar(0))); }
  // Returns the elements of `value` if it is known to be a constant.
  std::optional<std::vector<int64_t>> Constant(Output value) {
    const Tensor& tensor = graph_.values().at(value).constant;
    if (!tensor.has_value()) return std::nullopt;
    return *IntegersOf(tensor);
  }
  Graph graph_;
  Scope root_{&graph_};
  // A batch of images with the partially known shape [?,28,3].
  const Output image_ = Feed({-1, 28, 3});
  const Output dims_ = ops::Shape(root_, image_);
};

using Values = std::vector<int64_t>;

TEST_F(ShapeArithmetic, ShapeHoldsKnownDimensions) {
  EXPECT_EQ(Held(dims_), Shape({-1, 28, 3}));
  EXPECT_EQ(Constant(dims_), std::nullopt);
  EXPECT_EQ(Constant(ops::Shape(root_, Feed({4, 5}))), Values({4, 5}));
  EXPECT_TRUE(Held(ops::Shape(root_, Feed(Shape::UnknownRank()))).unknown_rank());
  EXPECT_EQ(Constant(ops::ShapeN(root_, {Feed({4}), Feed({5, 6})}, {.out_type = DT_INT64})[1]),
            Values({5, 6}));
}

TEST_F(ShapeArithmetic, SizeAndRankAreConstantsOnceKnown) {
  EXPECT_EQ(Constant(ops::Rank(root_, image_)), Values({3}));
  EXPECT_EQ(Constant(ops::Size(root_, image_)), std::nullopt);
  EXPECT_EQ(Constant(ops::Size(root_, Feed({4, 0}))), Values({0}));
  EXPECT_EQ(Constant(ops::Rank(root_, Feed(Shape::UnknownRank()))), std::nullopt);
}

TEST_F(ShapeArithmetic, ElementsOfShapeAreConstantsIfKnown) {
  EXPECT_EQ(Constant(ops::ElementOf(root_, dims_, 0)), std::nullopt);
  EXPECT_EQ(Constant(ops::ElementOf(root_, dims_, 1)), Values({28}));
  EXPECT_EQ(Constant(ops::ElementOf(root_, dims_, -1)), Values({3}));
  const std::vector<Output> parts = ops::Unpack(root_, dims_, 3);
  EXPECT_EQ(Constant(parts[0]), std::nullopt);
  EXPECT_EQ(Constant(parts[2]), Values({3}));
}

TEST_F(ShapeArithmetic, PackAndConcatCombineKnownElements) {
  const Output n = ops::ElementOf(root_, dims_, 0), h = ops::ElementOf(root_, dims_, 1);
  EXPECT_EQ(Held(ops::Pack(root_, {h, n, Scalar(7)})), Shape({28, -1, 7}));
  EXPECT_EQ(Constant(ops::Pack(root_, {h, Scalar(7)})), Values({28, 7}));
  EXPECT_EQ(Held(ops::ConcatV2(root_, {dims_, Vector({7})}, 0)), Shape({-1, 28, 3, 7}));
  EXPECT_EQ(Constant(ops::ConcatV2(root_, {Vector({-1}), Vector({7})}, 0)), Values({-1, 7}));
}

TEST_F(ShapeArithmetic, SlicesKeepOrderOfElements) {
  EXPECT_EQ(Constant(ops::Slice(root_, dims_, Vector({1}), Vector({-1}))), Values({28, 3}));
  EXPECT_EQ(Held(ops::Slice(root_, dims_, Vector({0}), Vector({2}))), Shape({-1, 28}));
  const Output reversed = ops::StridedSlice(root_, dims_, Vector({0}), Vector({0}), Vector({-1}),
                                            {.begin_mask = 1, .end_mask = 1});
  EXPECT_EQ(Held(reversed), Shape({3, 28, -1}));
  EXPECT_EQ(Held(ops::GatherV2(root_, dims_, Vector({2, 0}), Scalar(0))), Shape({3, -1}));
  EXPECT_EQ(Constant(ops::GatherV2(root_, dims_, Scalar(2), Scalar(0))), Values({3}));
}

TEST_F(ShapeArithmetic, ComputedShapesDetermineResultShapes) {
  EXPECT_EQ(ShapeOf(ops::BroadcastTo(root_, Feed({1, 3}), dims_)), Shape({-1, 28, 3}));
  // If a dimension of the input is known, it is known in the result.
  EXPECT_EQ(ShapeOf(ops::BroadcastTo(root_, Feed({5, 1, 3}), dims_)), Shape({5, 28, 3}));
  EXPECT_EQ(ShapeOf(ops::Tile(root_, Feed({2, 2, -1}), dims_)), Shape({-1, 56, -1}));
  EXPECT_EQ(ShapeOf(ops::Tile(root_, Feed({-1, 2}), Vector({1, 3}))), Shape({-1, 6}));
  EXPECT_EQ(Constant(ops::Fill(root_, Vector({2}), Scalar(4))), Values({4, 4}));
}

TEST_F(ShapeArithmetic, ShortRangesAreConstants) {
  const Output axes = ops::Range(root_, Scalar(0), ops::Rank(root_, image_), Scalar(1));
  EXPECT_EQ(Constant(axes), Values({0, 1, 2}));
  EXPECT_EQ(ShapeOf(ops::Range(root_, Scalar(0), Scalar(1000), Scalar(3))), Shape({334}));
  const Output n = ops::ElementOf(root_, dims_, 0);
  EXPECT_EQ(ShapeOf(ops::Range(root_, Scalar(0), n, Scalar(1))), Shape({-1}));
}

TEST_F(ShapeArithmetic, OffsetsAreKnownUpToFirstUnknownSize) {
  const Output other = ops::Shape(root_, Feed({4, 28, 3}));
  const std::vector<Output> offsets = ops::ConcatOffset(root_, Scalar(0), {other, dims_, other});
  EXPECT_EQ(Constant(offsets[0]), Values({0, 0, 0}));
  EXPECT_EQ(Constant(offsets[1]), Values({4, 0, 0}));
  EXPECT_EQ(Constant(offsets[2]), std::nullopt);
}

TEST_F(ShapeArithmetic, SlicesOfUnknownDimensionsKeepKnownOnes) {
  EXPECT_EQ(ShapeOf(ops::Slice(root_, image_, Vector({0, 1, 0}), Vector({-1, -1, 2}))),
            Shape({-1, 27, 2}));
  EXPECT_EQ(ShapeOf(ops::Slice(root_, image_, Vector({2, 0, 0}), Vector({5, 1, 1}))),
            Shape({5, 1, 1}));
  EXPECT_EQ(
      ShapeOf(ops::Pad(root_, image_, ops::Reshape(root_, Vector({1, 1, 0, 2, 0, 0}), {3, 2}))),
      Shape({-1, 30, 3}));
  // This is x[:, 1:-1:2, -1].
  EXPECT_EQ(ShapeOf(ops::StridedSlice(root_, image_, Vector({0, 1, -1}), Vector({0, -1, 0}),
                                      Vector({1, 2, 1}),
                                      {.begin_mask = 1, .end_mask = 1, .shrink_axis_mask = 4})),
            Shape({-1, 13}));
  // If the bounds are unknown, only the masks determine the shape.
  const Output bound = Feed({2}, DT_INT32);
  EXPECT_EQ(ShapeOf(ops::StridedSlice(root_, image_, bound, bound, bound,
                                      {.ellipsis_mask = 1, .shrink_axis_mask = 2})),
            Shape({-1, 28}));
  EXPECT_EQ(ShapeOf(ops::StridedSlice(root_, image_, bound, bound, bound, {.new_axis_mask = 1})),
            Shape({1, -1, 28, 3}));
}

TEST_F(ShapeArithmetic, JoiningCombinesKnownDimensionsOfAllPieces) {
  EXPECT_EQ(ShapeOf(ops::ConcatV2(root_, {Feed({-1, 2}), Feed({5, 3})}, 1)), Shape({5, 5}));
  EXPECT_EQ(ShapeOf(ops::ConcatV2(root_, {Feed({-1, 2}), Feed({5, -1})}, 1)), Shape({5, -1}));
  EXPECT_EQ(ShapeOf(ops::ConcatV2(root_, {Feed(Shape::UnknownRank()), Feed({5, 3})}, 0)),
            Shape({-1, 3}));
  EXPECT_EQ(ShapeOf(ops::Pack(root_, {Feed({-1, 2}), Feed({5, -1})}, {.axis = -1})),
            Shape({5, 2, 2}));
  EXPECT_EQ(ShapeOf(ops::Unpack(root_, Feed({-1, -1}), 4, {.axis = 1})[3]), Shape({-1}));
}

TEST_F(ShapeArithmetic, GatheringKeepsKnownDimensions) {
  EXPECT_EQ(ShapeOf(ops::GatherV2(root_, image_, Feed({-1, 2}, DT_INT64), Scalar(1))),
            Shape({-1, -1, 2, 3}));
  EXPECT_EQ(ShapeOf(ops::GatherV2(root_, image_, Feed({2}, DT_INT64), Feed({}, DT_INT32))),
            Shape({-1, -1, -1}));
  EXPECT_EQ(ShapeOf(ops::UnsortedSegmentSum(root_, image_, Feed({-1}, DT_INT32), Scalar(9))),
            Shape({9, 28, 3}));
  EXPECT_EQ(ShapeOf(ops::Transpose(root_, image_, {2, 0, 1})), Shape({3, -1, 28}));
  EXPECT_EQ(ShapeOf(ops::Transpose(root_, image_, Feed({-1}, DT_INT32))), Shape({-1, -1, -1}));
  EXPECT_EQ(Constant(ops::InvertPermutation(root_, Vector({2, 0, 1}))), Values({1, 2, 0}));
}

// --- errors ----------------------------------------------------------------------------------

struct ErrorRow {
  const char* name;
  void (*build)(const Scope& s);
  const char* place;
  const char* token;
};

Output Of(const Scope& s, const Shape& shape, DataType dtype = DT_FLOAT) {
  return ops::Placeholder(s, dtype, shape);
}
Output Ints(const Scope& s, absl::Span<const int64_t> values) {
  return ops::VectorConst(s, values);
}
Output Int(const Scope& s, int64_t value) { return ops::ScalarConst(s, DT_INT32, double(value)); }

const ErrorRow kErrors[] = {
    {"ConstOfFractionAsInteger", [](const Scope& s) { ops::ScalarConst(s, DT_INT32, 0.5); },
     "int32", "0.5"},
    {"ConstOutOfRange", [](const Scope& s) { ops::ScalarConst(s, DT_UINT8, 256); }, "uint8", "256"},
    {"VectorOutOfRange", [](const Scope& s) { Ints(s, {int64_t{1} << 31}); }, "int32",
     "2147483648"},
    {"ShapeTooLargeForInt32", [](const Scope& s) { ops::Shape(s, Of(s, {int64_t{1} << 31})); },
     "out_type int32", "2147483648"},
    {"FillOfNegativeSize",
     [](const Scope& s) {
       ops::Fill(s, Ints(s, {2, -1}), Int(s, 0));
     },
     "dims", "got [2,?]"},
    {"FillWithVector", [](const Scope& s) { ops::Fill(s, Ints(s, {2}), Ints(s, {1})); }, "input 1",
     "got shape [1]"},
    {"TileOfWrongRank",
     [](const Scope& s) {
       ops::Tile(s, Of(s, {2, 3}), Ints(s, {2}));
     },
     "multiples", "got 1"},
    {"TileNegativeNumberOfTimes", [](const Scope& s) { ops::Tile(s, Of(s, {2}), Ints(s, {-2})); },
     "multiples", "got -2"},
    {"BroadcastToSmallerShape",
     [](const Scope& s) {
       ops::BroadcastTo(s, Of(s, {2, 3}), Ints(s, {3}));
     },
     "input [2,3]", "to shape [3]"},
    {"BroadcastOfDimensionLargerThanOne",
     [](const Scope& s) { ops::BroadcastTo(s, Of(s, {2}), Ints(s, {3})); }, "input [2]",
     "to shape [3]"},
    {"RangeWithoutStep", [](const Scope& s) { ops::Range(s, Int(s, 0), Int(s, 5), Int(s, 0)); },
     "delta", "not be 0"},
    {"RangeAwayFromLimit", [](const Scope& s) { ops::Range(s, Int(s, 5), Int(s, 0), Int(s, 1)); },
     "start 5 to limit 0", "delta 1"},
    {"RangeOfNaN",
     [](const Scope& s) {
       const Output nan = ops::ScalarConst(s, DT_FLOAT, std::nan(""));
       ops::Range(s, nan, nan, nan);
     },
     "cannot step", "start nan"},
    {"TransposeByNonPermutation",
     [](const Scope& s) {
       ops::Transpose(s, Of(s, {2, 3}), {1, 1});
     },
     "perm", "got {1, 1}"},
    {"TransposeOfWrongRank",
     [](const Scope& s) {
       ops::Transpose(s, Of(s, {2, 3}), {0, 2, 1});
     },
     "input 0", "got shape [2,3]"},
    {"ConcatOfDifferentDimensions",
     [](const Scope& s) {
       ops::ConcatV2(s, {Of(s, {2, 3}), Of(s, {2, 4})}, 0);
     },
     "except dimension 0", "for input 1, [2,4]"},
    {"ConcatOfScalars",
     [](const Scope& s) {
       ops::ConcatV2(s, {Of(s, {}), Of(s, {})}, 0);
     },
     "inputs", "got scalars"},
    {"ConcatAlongInvalidAxis",
     [](const Scope& s) {
       ops::ConcatV2(s, {Of(s, {2}), Of(s, {2})}, 1);
     },
     "axis", "[-1, 1), got 1"},
    {"ConcatOfOne", [](const Scope& s) { ops::ConcatV2(s, {Of(s, {2})}, 0); }, "attribute 'N'",
     "got 1"},
    {"PackOfDifferentShapes",
     [](const Scope& s) {
       ops::Pack(s, {Of(s, {2}), Of(s, {3})});
     },
     "input 1", "expected [2], got [3]"},
    {"UnpackIntoWrongNumber",
     [](const Scope& s) {
       ops::Unpack(s, Of(s, {2, 3}), 3);
     },
     "dimension 0", "got [2,3]"},
    {"UnpackOfScalar", [](const Scope& s) { ops::Unpack(s, Of(s, {}), 1); }, "axis",
     "[0, 0), got 0"},
    {"SliceBeyondEnd",
     [](const Scope& s) {
       ops::Slice(s, Of(s, {3, 4}), Ints(s, {0, 2}), Ints(s, {1, 3}));
     },
     "dimension 1", "got 3 (from index"},
    {"SliceFromNegativeBegin",
     [](const Scope& s) { ops::Slice(s, Of(s, {-1}), Ints(s, {-1}), Ints(s, {1})); }, "? elements",
     "(from index -1)"},
    {"SliceOfNegativeSize",
     [](const Scope& s) { ops::Slice(s, Of(s, {3}), Ints(s, {0}), Ints(s, {-2})); }, "got -2",
     "(from index 0)"},
    {"PadByNegativeNumber",
     [](const Scope& s) {
       ops::Pad(s, Of(s, {3}), ops::Reshape(s, Ints(s, {-1, 0}), {1, 2}));
     },
     "paddings of dimension 0", "got -1"},
    {"PadByTriples",
     [](const Scope& s) {
       ops::Pad(s, Of(s, {3}), Of(s, {1, 3}, DT_INT32));
     },
     "paddings", "got [1,3]"},
    {"StrideOfZero",
     [](const Scope& s) {
       ops::StridedSlice(s, Of(s, {3}), Ints(s, {0}), Ints(s, {1}), Ints(s, {0}));
     },
     "strides", "not be 0"},
    {"IndexOutOfRange", [](const Scope& s) { ops::ElementOf(s, Of(s, {3}), -4); },
     "index into dimension 0", "got -4"},
    {"IndexWithNegativeStride",
     [](const Scope& s) {
       ops::StridedSlice(s, Of(s, {3}), Ints(s, {0}), Ints(s, {1}), Ints(s, {-1}),
                         {.shrink_axis_mask = 1});
     },
     "stride of an index", "got -1"},
    {"TwoEllipses",
     [](const Scope& s) {
       ops::StridedSlice(s, Of(s, {3, 3}), Ints(s, {0, 0}), Ints(s, {0, 0}), Ints(s, {1, 1}),
                         {.ellipsis_mask = 3});
     },
     "ellipsis", "only one"},
    {"MoreEntriesThanDimensions",
     [](const Scope& s) {
       ops::StridedSlice(s, Of(s, {3}), Ints(s, {0, 0}), Ints(s, {1, 1}), Ints(s, {1, 1}));
     },
     "input [3]", "got 2"},
    {"GradientOfDifferentSlice",
     [](const Scope& s) {
       ops::StridedSliceGrad(s, Ints(s, {3}), Ints(s, {0}), Ints(s, {2}), Ints(s, {1}), Of(s, {3}));
     },
     "dy", "[2], got [3]"},
    {"GatherFromScalar",
     [](const Scope& s) { ops::GatherV2(s, Of(s, {}), Ints(s, {0}), Int(s, 0)); }, "input 0",
     "got shape []"},
    {"GatherAlongTwoAxes",
     [](const Scope& s) {
       ops::GatherV2(s, Of(s, {2, 2}), Ints(s, {0}), Ints(s, {0, 1}));
     },
     "input 2", "got shape [2]"},
    {"GatherInDifferentBatches",
     [](const Scope& s) {
       ops::GatherV2(s, Of(s, {2, 2}), Ints(s, {0}), Int(s, 1), {.batch_dims = 1});
     },
     "params [2,2]", "indices [1]"},
    {"GatherInMoreBatchesThanIndicesHave",
     [](const Scope& s) {
       ops::GatherV2(s, Of(s, {1, 2, 2}), Ints(s, {0}), Int(s, 2), {.batch_dims = 2});
     },
     "batch_dims", "indices [1], got 2"},
    {"GatherInBatchesBeyondAxis",
     [](const Scope& s) {
       ops::GatherV2(s, Of(s, {1, 2}), Ints(s, {0}), Int(s, 0), {.batch_dims = 1});
     },
     "batch_dims", "axis 0, got 1"},
    {"SegmentsOfDifferentRows",
     [](const Scope& s) {
       ops::UnsortedSegmentSum(s, Of(s, {4, 2}), Of(s, {3}, DT_INT32), Int(s, 2));
     },
     "segment_ids", "got [3]"},
    {"NegativeNumberOfSegments",
     [](const Scope& s) {
       ops::UnsortedSegmentSum(s, Of(s, {4}), Of(s, {4}, DT_INT32), Int(s, -1));
     },
     "num_segments", "got -1"},
    {"StitchOfDifferentRows",
     [](const Scope& s) {
       ops::DynamicStitch(s, {Ints(s, {0}), Ints(s, {1})}, {Of(s, {1, 2}), Of(s, {1, 3})});
     },
     "data 1", "expected [2], got [3]"},
    {"StitchAtNegativeIndex",
     [](const Scope& s) { ops::DynamicStitch(s, {Ints(s, {-1})}, {Of(s, {1})}); }, "indices",
     "got -1"},
};

class ArrayOpError : public ::testing::TestWithParam<ErrorRow> {};

TEST_P(ArrayOpError, ErrorNamesTheCause) {
  Graph graph;
  const Scope root(&graph);
  GetParam().build(root);
  EXPECT_THAT(root.status(),
              IsError(absl::StatusCode::kInvalidArgument, GetParam().place, GetParam().token));
}

INSTANTIATE_TEST_SUITE_P(Errors, ArrayOpError, ::testing::ValuesIn(kErrors),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mirrorflow
