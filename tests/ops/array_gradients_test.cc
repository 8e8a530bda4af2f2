// SPDX-License-Identifier: Apache-2.0
//
// Tests the gradients of array ops when shapes are unknown while the graph is built. The nodes
// differ from those for known shapes, but the values must be equal. tests/ops/op_test.cc compares
// the values for known shapes with central differences.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/dynamic_stitch.h"
#include "ops/gather.h"
#include "ops/gradients.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/slice.h"
#include "ops/strided_slice.h"
#include "ops/tile.h"
#include "ops/transpose.h"
#include "tests/oracle/interpreter.h"
#include "tests/support/is_error.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

struct Row {
  const char* name;
  Shape shape;
  Output (*build)(const Scope& s, Output x);
  bool needs_rank = false;
};

Output Ints(const Scope& s, absl::Span<const int64_t> values) {
  return ops::VectorConst(s, values);
}
Output Int(const Scope& s, int64_t value) { return ops::ScalarConst(s, DT_INT32, double(value)); }
// Returns the size of dimension d of x. It is a constant only if the shape of x is known.
Output SizeOf(const Scope& s, Output x, int d) { return ops::ElementOf(s, ops::Shape(s, x), d); }

const Row kRows[] = {
    {"Reshape",
     {2, 6},
     [](const Scope& s, Output x) {
       return ops::Reshape(s, x, {-1, 4});
     }},
    {"ExpandDims",
     {2, 3},
     [](const Scope& s, Output x) { return ops::ExpandDims(s, x, int64_t{1}); }},
    {"Squeeze",
     {2, 1, 3},
     [](const Scope& s, Output x) { return ops::Squeeze(s, x, {.axis = {1}}); }},
    {"Tile",
     {2, 3},
     [](const Scope& s, Output x) {
       return ops::Tile(s, x, Ints(s, {2, 3}));
     }},
    {"TileOneDimension",
     {2, 1, 3},
     [](const Scope& s, Output x) {
       return ops::Tile(s, x, Ints(s, {1, 4, 1}));
     }},
    {"TileByShape",
     {2, 3},
     [](const Scope& s, Output x) { return ops::Tile(s, x, ops::Shape(s, x)); }},
    {"TileEmpty",
     {0, 3},
     [](const Scope& s, Output x) {
       return ops::Tile(s, x, Ints(s, {2, 2}));
     }},
    {"BroadcastTo",
     {2, 1, 3},
     [](const Scope& s, Output x) {
       return ops::BroadcastTo(s, x, Ints(s, {5, 2, 4, 3}));
     }},
    {"BroadcastToSameShape",
     {2, 3},
     [](const Scope& s, Output x) {
       return ops::BroadcastTo(s, x, Ints(s, {2, 3}));
     }},
    {"Fill",
     {1, 1},
     [](const Scope& s, Output x) {
       const Output value = ops::Reshape(s, x, Shape());
       return ops::Fill(s, ops::ConcatV2(s, {ops::Shape(s, x), Ints(s, {3})}, 0), value);
     }},
    {"Transpose",
     {2, 3, 4},
     [](const Scope& s, Output x) {
       return ops::Transpose(s, x, {2, 0, 1});
     }},
    {"Concat",
     {2, 3},
     [](const Scope& s, Output x) {
       return ops::ConcatV2(s, {x, ops::Reshape(s, x, {2, -1}), x}, -1);
     }},
    {"Pack",
     {2, 3},
     [](const Scope& s, Output x) {
       return ops::Pack(s, {x, x}, {.axis = 1});
     }},
    {"UnpackWithOneUsedOutput",
     {2, 3},
     [](const Scope& s, Output x) { return ops::Unpack(s, x, 3, {.axis = -1})[1]; }},
    {"SliceToEnd",
     {3, 4},
     [](const Scope& s, Output x) {
       return ops::Slice(s, x, Ints(s, {1, 2}), Ints(s, {-1, -1}));
     }},
    {"SliceInMiddle",
     {3, 4},
     [](const Scope& s, Output x) {
       return ops::Slice(s, x, Ints(s, {1, 1}), Ints(s, {1, 2}));
     }},
    {"SliceOfComputedSize",
     {3, 4},
     [](const Scope& s, Output x) {
       return ops::Slice(s, x, Ints(s, {0, 1}), ops::Pack(s, {SizeOf(s, x, 0), Int(s, 2)}));
     }},
    {"Pad",
     {2, 3},
     [](const Scope& s, Output x) {
       return ops::Pad(s, x, ops::Reshape(s, Ints(s, {1, 0, 2, 1}), {2, 2}));
     }},
    {"PadByComputedNumbers",
     {2, 3},
     [](const Scope& s, Output x) {
       const Output sizes = ops::Shape(s, x);
       return ops::Pad(s, x, ops::Pack(s, {sizes, sizes}, {.axis = 1}));
     }},
    {"StridedSlice",
     {5, 4},
     [](const Scope& s, Output x) {
       return ops::StridedSlice(s, x, Ints(s, {3, 0}), Ints(s, {0, 2}), Ints(s, {-2, 1}));
     }},
    {"StridedSliceGrad",
     {2, 4},
     [](const Scope& s, Output x) {
       return ops::StridedSliceGrad(s, Ints(s, {5, 4}), Ints(s, {0, 0}), Ints(s, {4, 4}),
                                    Ints(s, {2, 1}), x);
     }},
    {"Gather",
     {4, 3},
     [](const Scope& s, Output x) {
       return ops::GatherV2(s, x, ops::Reshape(s, Ints(s, {3, 0, 3, 1}), {2, 2}), Int(s, 0));
     },
     /*needs_rank=*/true},
    {"GatherAlongInnerDimension",
     {2, 4, 3},
     [](const Scope& s, Output x) {
       return ops::GatherV2(s, x, ops::Reshape(s, Ints(s, {3, 0, 3, 1}), {2, 2}), Int(s, 1));
     },
     /*needs_rank=*/true},
    {"UnsortedSegmentSum",
     {4, 3},
     [](const Scope& s, Output x) {
       return ops::UnsortedSegmentSum(s, x, Ints(s, {1, -1, 0, 1}), Int(s, 2));
     },
     /*needs_rank=*/true},
    {"DynamicStitch",
     {2, 3},
     [](const Scope& s, Output x) {
       return ops::DynamicStitch(s, {Ints(s, {2, 0}), Ints(s, {1, 3})}, {x, x});
     }},
    {"DynamicStitchOfEqualIndices",
     {2, 3},
     [](const Scope& s, Output x) {
       return ops::DynamicStitch(s, {Ints(s, {2, 0}), Ints(s, {0, 0})}, {x, x});
     },
     /*needs_rank=*/true},
};

class ArrayGradient : public ::testing::TestWithParam<Row> {
 protected:
  // Returns dx for a fixed x and dy, from a graph where x is a placeholder with shape `shape`.
  Tensor GradientKnowing(const Shape& shape) {
    Graph graph;
    const Scope root(&graph);
    const Output x = ops::Placeholder(root, DT_DOUBLE, shape);
    const Output y = GetParam().build(root, x);
    const Output dy = ops::Placeholder(root, DT_DOUBLE);
    const auto gradients = Gradients(root, {y}, {x}, {.grad_ys = {dy}});
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    if (!gradients.ok()) return Tensor();
    auto interpreter = Interpreter::Create(graph, CpuKernels());
    EXPECT_TRUE(interpreter.ok()) << interpreter.status();
    Random random(1);
    const Tensor at = RandomTensor(DT_DOUBLE, GetParam().shape, &random);
    const auto forward = interpreter->Run({{x, at}}, {y});
    EXPECT_TRUE(forward.ok()) << forward.status();
    if (!forward.ok()) return Tensor();
    const Tensor weights = RandomTensor(DT_DOUBLE, (*forward)[0].shape(), &random);
    const auto dx = interpreter->Run({{x, at}, {dy, weights}}, {(*gradients)[0]});
    EXPECT_TRUE(dx.ok()) << dx.status();
    return dx.ok() ? (*dx)[0] : Tensor();
  }
};

TEST_P(ArrayGradient, DoesNotDependOnWhetherShapeIsKnown) {
  const Shape& shape = GetParam().shape;
  const Tensor want = GradientKnowing(shape);
  ASSERT_EQ(want.shape(), shape);
  EXPECT_EQ(Difference(want, GradientKnowing(Shape::UnknownDims(shape.rank())), {}), "");
  if (GetParam().needs_rank) return;
  EXPECT_EQ(Difference(want, GradientKnowing(Shape::UnknownRank()), {}), "");
}

INSTANTIATE_TEST_SUITE_P(Ops, ArrayGradient, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return info.param.name; });

TEST(ArrayGradientError, GatherRequiresKnownRanks) {
  Graph graph;
  const Scope root(&graph);
  const Output x = ops::Placeholder(root, DT_FLOAT);
  const Output y = ops::GatherV2(root, x, Ints(root, {0}), Int(root, 0));
  const auto gradients = Gradients(root, {y}, {x});
  EXPECT_THAT(gradients.status(),
              IsError(absl::StatusCode::kInvalidArgument, "GatherV2(GatherV2)", "ranks of params"));
}

}  // namespace
}  // namespace mirrorflow
