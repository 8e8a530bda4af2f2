// SPDX-License-Identifier: Apache-2.0
#include "ops/passes/fold_padding.h"

#include <string>
#include <utility>
#include <vector>

#include "framework/compiler/passes/infer_and_fold.h"
#include "framework/core/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all/ops.h"
#include "tests/support/compilation.h"
#include "tests/support/run_without_pass.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

using ::testing::HasSubstr;

const Shape kImages({2, 6, 7, 4});
const Shape kFilter({3, 3, 4, 8});
const std::vector<int64_t> kStrides = {1, 1, 1, 1};

// A program with two feeds, images and a filter.
struct Model : PassProgram {
  explicit Model(const Shape& images = kImages, const Shape& filter = kFilter) {
    shapes = {images, filter};
    Shape declared = images;
    declared.set_dim(0, kUnknownDim);
    feeds = {ops::Placeholder(root, DT_FLOAT, declared), ops::Placeholder(root, DT_FLOAT, filter)};
    x = feeds[0];
    filter_ = feeds[1];
  }

  // `paddings` has two numbers per dimension, before and after.
  Output Paddings(const std::vector<int32_t>& paddings) {
    const int64_t rank = static_cast<int64_t>(paddings.size() / 2);
    return ops::Const(root, Tensor::Of<int32_t>({rank, 2}, absl::Span<const int32_t>(paddings)));
  }
  Output Pad(const std::vector<int32_t>& paddings) { return ops::Pad(root, x, Paddings(paddings)); }
  Output Convolve(Output images, absl::string_view padding = "VALID",
                  const ops::Conv2DOptions& options = {}) {
    return ops::Conv2D(root, images, filter_, kStrides, padding, options);
  }

  const Scope root{&graph};
  Output x, filter_;
};

// Returns how many Pads the step's plan has, on one replica and on three. The values must equal
// those on one replica without the pass.
int NumPads(const PassProgram& program) {
  const auto want = program.Run(1, "fold_padding");
  EXPECT_TRUE(want.ok()) << want.status();
  if (!want.ok()) return -1;
  int64_t pads = -1;
  for (const int replicas : {1, 3}) {
    const auto got = program.Run(replicas);
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok()) return -1;
    for (size_t i = 0; i < want->values.size(); ++i) {
      EXPECT_EQ(Difference(want->values[i], got->values[i], {.relative = 1e-5, .absolute = 1e-5}),
                "");
    }
    const int64_t count = got->Count("Pad") + got->Count("PadV2");
    if (replicas > 1) {
      EXPECT_EQ(count, pads);
    }
    pads = count;
  }
  return static_cast<int>(pads);
}

TEST(FoldPaddingTest, ConvolutionPads) {
  for (const std::vector<int32_t>& paddings : {std::vector<int32_t>{0, 0, 1, 1, 1, 1, 0, 0},
                                               {0, 0, 0, 1, 2, 0, 0, 0},
                                               {0, 0, 2, 2, 1, 2, 0, 0},
                                               {0, 0, 0, 0, 0, 2, 0, 0}}) {
    Model m;
    m.fetches = {m.Convolve(m.Pad(paddings))};
    EXPECT_EQ(NumPads(m), 0);
    Model strided;
    strided.fetches = {
        ops::Conv2D(strided.root, strided.Pad(paddings), strided.filter_, {1, 2, 3, 1}, "VALID")};
    EXPECT_EQ(NumPads(strided), 0);
  }
}

TEST(FoldPaddingTest, GroupedAndDilatedConvolutionsPad) {
  Model grouped(kImages, {3, 3, 2, 8});
  grouped.fetches = {grouped.Convolve(grouped.Pad({0, 0, 1, 2, 2, 1, 0, 0}))};
  EXPECT_EQ(NumPads(grouped), 0);
  Model dilated;
  dilated.fetches = {dilated.Convolve(dilated.Pad({0, 0, 1, 2, 2, 1, 0, 0}), "VALID",
                                      {.dilations = {1, 2, 2, 1}})};
  EXPECT_EQ(NumPads(dilated), 0);
}

TEST(FoldPaddingTest, DepthwiseConvolutionPads) {
  for (const int64_t multiplier : {1, 2}) {
    Model m(kImages, {3, 3, 4, multiplier});
    m.fetches = {ops::DepthwiseConv2dNative(m.root, m.Pad({0, 0, 0, 1, 2, 1, 0, 0}), m.filter_,
                                            {1, 2, 2, 1}, "VALID")};
    EXPECT_EQ(NumPads(m), 0);
  }
}

TEST(FoldPaddingTest, MaxPoolOfImagesWithoutNegativesPads) {
  for (const auto& activation : {ops::Relu, ops::Relu6, ops::Sigmoid}) {
    for (const std::vector<int32_t>& paddings :
         {std::vector<int32_t>{0, 0, 1, 1, 1, 1, 0, 0}, {0, 0, 0, 1, 2, 0, 0, 0}}) {
      Model m;
      const Output images = ops::Neg(m.root, ops::Abs(m.root, m.x));  // keeps activations near 0
      m.fetches = {ops::MaxPool(m.root,
                                ops::Pad(m.root, activation(m.root, images), m.Paddings(paddings)),
                                {1, 3, 3, 1}, {1, 2, 2, 1}, "VALID")};
      EXPECT_EQ(NumPads(m), 0);
    }
  }
}

TEST(FoldPaddingTest, MaxPoolOfOtherImagesIsLeft) {
  Model negative;
  negative.fetches = {ops::MaxPool(negative.root, negative.Pad({0, 0, 1, 1, 1, 1, 0, 0}),
                                   {1, 3, 3, 1}, {1, 2, 2, 1}, "VALID")};
  EXPECT_EQ(NumPads(negative), 1);
  Model average;
  average.fetches = {ops::AvgPool(average.root,
                                  ops::Pad(average.root, ops::Relu(average.root, average.x),
                                           average.Paddings({0, 0, 1, 1, 1, 1, 0, 0})),
                                  {1, 3, 3, 1}, {1, 2, 2, 1}, "VALID")};
  EXPECT_EQ(NumPads(average), 1);
}

TEST(FoldPaddingTest, ChannelsFirstConvolutionPads) {
  Model m({2, 4, 6, 7});
  m.fetches = {m.Convolve(m.Pad({0, 0, 0, 0, 1, 2, 0, 1}), "VALID", {.data_format = "NCHW"})};
  EXPECT_EQ(NumPads(m), 0);
}

TEST(FoldPaddingTest, ExplicitPaddingsAreSummed) {
  Model m;
  m.fetches = {m.Convolve(m.Pad({0, 0, 1, 0, 0, 2, 0, 0}), "EXPLICIT",
                          {.explicit_paddings = {0, 0, 1, 2, 1, 0, 0, 0}})};
  EXPECT_EQ(NumPads(m), 0);
}

// A convolution of padding alone returns zeros, which the bias and the activation still change.
TEST(FoldPaddingTest, PaddingOfEmptyImagesIsLeft) {
  Model m({2, 0, 7, 4});
  m.shapes.push_back({8});
  m.feeds.push_back(ops::Placeholder(m.root, DT_FLOAT, {8}));
  const Output y = m.Convolve(m.Pad({0, 0, 2, 2, 1, 1, 0, 0}));
  m.fetches = {ops::Sigmoid(m.root, ops::BiasAdd(m.root, y, m.feeds[2]))};
  EXPECT_EQ(NumPads(m), 1);
}

TEST(FoldPaddingTest, FoldsInnerPadOfTwo) {
  Model m;
  const Output outer =
      ops::Pad(m.root, m.Pad({0, 0, 1, 0, 0, 0, 0, 0}), m.Paddings({0, 0, 0, 1, 1, 1, 0, 0}));
  m.fetches = {m.Convolve(outer)};
  EXPECT_LE(NumPads(m), 1);
}

TEST(FoldPaddingTest, OtherPaddingsAreLeft) {
  Model same;
  same.fetches = {same.Convolve(same.Pad({0, 0, 1, 1, 1, 1, 0, 0}), "SAME")};
  EXPECT_EQ(NumPads(same), 1);

  Model channels({2, 6, 7, 3});
  channels.fetches = {channels.Convolve(channels.Pad({0, 0, 1, 1, 1, 1, 0, 1}))};
  EXPECT_EQ(NumPads(channels), 1);

  Model batch;
  batch.fetches = {batch.Convolve(batch.Pad({0, 1, 1, 1, 1, 1, 0, 0}))};
  EXPECT_EQ(NumPads(batch), 1);

  Model value;
  value.fetches = {
      value.Convolve(ops::PadV2(value.root, value.x, value.Paddings({0, 0, 1, 1, 1, 1, 0, 0}),
                                ops::ScalarConst(value.root, DT_FLOAT, 1)))};
  EXPECT_EQ(NumPads(value), 1);
}

// A window at the border would contain no pixel.
TEST(FoldPaddingTest, PaddingAsLargeAsWindowIsLeft) {
  Model m;
  m.fetches = {m.Convolve(m.Pad({0, 0, 3, 1, 1, 1, 0, 0}))};
  EXPECT_EQ(NumPads(m), 1);
  Model width;
  width.fetches = {width.Convolve(width.Pad({0, 0, 1, 1, 1, 3, 0, 0}))};
  EXPECT_EQ(NumPads(width), 1);
  Model sum;
  sum.fetches = {sum.Convolve(sum.Pad({0, 0, 2, 0, 0, 0, 0, 0}), "EXPLICIT",
                              {.explicit_paddings = {0, 0, 1, 0, 0, 0, 0, 0}})};
  EXPECT_EQ(NumPads(sum), 1);
  Model pointwise(kImages, {1, 1, 4, 8});
  pointwise.fetches = {pointwise.Convolve(pointwise.Pad({0, 0, 1, 0, 0, 0, 0, 0}))};
  EXPECT_EQ(NumPads(pointwise), 1);
}

TEST(FoldPaddingTest, PaddedImagesWithOtherUsesAreLeft) {
  Model fetched;
  const Output padded = fetched.Pad({0, 0, 1, 1, 1, 1, 0, 0});
  fetched.fetches = {padded, fetched.Convolve(padded)};
  EXPECT_EQ(NumPads(fetched), 1);

  Model used;
  const Output shared = used.Pad({0, 0, 1, 1, 1, 1, 0, 0});
  used.fetches = {ops::Neg(used.root, shared), used.Convolve(shared)};
  EXPECT_EQ(NumPads(used), 1);
}

constexpr char kPadded[] = R"(
x = Placeholder() {dtype=float, shape=<2,6,6,1>}
filter = Placeholder() {dtype=float, shape=<3,3,1,2>}
first = Neg(x) {T=float}
second = Exp(x) {T=float}
paddings = Const() {dtype=int32, value=int32<4,2>{0, 0, 1, 1, 1, 1, 0, 0}}
pad = Pad(x, paddings, ^first) {T=float, Tpaddings=int32}
y = Conv2D(pad, filter, ^second) {T=float, strides=[1,1,1,1], padding="VALID"}
last = Abs(x, ^y) {T=float}
)";

TEST(FoldPaddingTest, ControlDependenciesAreKept) {
  const auto step = ParseStep(
      kPadded, {.feeds = {{"x", {2, 6, 6, 1}}, {"filter", {3, 3, 1, 2}}}, .fetches = {"last"}});
  ASSERT_TRUE(step.ok()) << step.status();
  ASSERT_EQ(RunPasses((*step)->c, InferAndFold(), FoldPadding()), absl::OkStatus());
  const std::string text = StepToText((*step)->c);
  EXPECT_THAT(text, HasSubstr("y_1 = Conv2D(x, filter, ^second, ^first)")) << text;
  EXPECT_THAT(text, HasSubstr("last = Abs(x, ^y_1)")) << text;
}

}  // namespace
}  // namespace mirrorflow
