// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/direct_depthwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "framework/graph/scope.h"
#include "gtest/gtest.h"
#include "kernels/cpu/vectorize.h"
#include "ops/control.h"
#include "ops/depthwise_conv2d.h"
#include "ops/fused_ops.h"
#include "ops/unary.h"

namespace mirrorflow {
namespace {

std::vector<float> Numbers(int64_t n, int seed) {
  std::vector<float> numbers(n);
  for (int64_t i = 0; i < n; ++i) {
    numbers[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i) + seed));
  }
  return numbers;
}

int64_t InFloats(const DirectDepthwise& d) { return d.batch * d.h.in * d.w.in * d.channels; }
int64_t OutFloats(const DirectDepthwise& d) { return d.batch * d.h.out * d.w.out * d.channels; }

std::vector<double> Expected(const DirectDepthwise& d, const float* images, const float* filter,
                             const float* bias) {
  std::vector<double> out;
  for (int64_t n = 0; n < d.batch; ++n) {
    for (int64_t y = 0; y < d.h.out; ++y) {
      for (int64_t x = 0; x < d.w.out; ++x) {
        for (int64_t c = 0; c < d.channels; ++c) {
          double sum = bias != nullptr ? bias[c] : 0;
          for (int64_t i = 0; i < d.h.size; ++i) {
            for (int64_t j = 0; j < d.w.size; ++j) {
              const int64_t iy = d.h.start(y) + i * d.h.dilation;
              const int64_t ix = d.w.start(x) + j * d.w.dilation;
              if (iy < 0 || iy >= d.h.in || ix < 0 || ix >= d.w.in) continue;
              sum += double{images[((n * d.h.in + iy) * d.w.in + ix) * d.channels + c]} *
                     filter[(i * d.w.size + j) * d.channels + c];
            }
          }
          out.push_back(sum);
        }
      }
    }
  }
  return out;
}

// Returns a window whose last position leaves `after` rows or columns of padding.
Window WindowOf(int64_t in, int64_t size, int64_t stride, int64_t before, int64_t after,
                int64_t dilation = 1) {
  Window window = {
      .in = in, .size = size, .stride = stride, .before = before, .dilation = dilation};
  window.out = (in + before + after - window.extent()) / stride + 1;
  return window;
}

// The parameter says whether the processor's AVX-512 is used.
class DirectDepthwiseTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { internal::forbid_avx512 = !GetParam(); }
  void TearDown() override { internal::forbid_avx512 = false; }

  // Compares with sums in double precision, for operands at unaligned addresses.
  static void ExpectRight(const DirectDepthwise& d) {
    SCOPED_TRACE(testing::Message()
                 << d.batch << " images, " << d.channels << " channels, " << d.h.in << "x" << d.w.in
                 << ", filter " << d.h.size << "x" << d.w.size << ", strides " << d.h.stride << " "
                 << d.w.stride << ", padding " << d.h.before << " " << d.w.before << ", dilations "
                 << d.h.dilation << " " << d.w.dilation);
    ASSERT_GT(OutFloats(d), 0);
    const std::vector<float> images = Numbers(InFloats(d) + 1, 1);
    const std::vector<float> filter = Numbers(d.h.size * d.w.size * d.channels + 1, 2);
    const std::vector<float> biases = Numbers(d.channels + 1, 3);
    for (const float* bias : {static_cast<const float*>(nullptr), biases.data() + 1}) {
      const std::vector<double> want = Expected(d, images.data() + 1, filter.data() + 1, bias);
      constexpr float kUntouched = 7.0f;
      std::vector<float> got(want.size() + 2, kUntouched);
      d.Run(images.data() + 1, filter.data() + 1, bias, nullptr, got.data() + 1);
      EXPECT_EQ(got.front(), kUntouched);
      EXPECT_EQ(got.back(), kUntouched);
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i + 1], want[i], 2e-5) << i;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(All, DirectDepthwiseTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "WidestVectors" : "Avx2"; });

TEST_P(DirectDepthwiseTest, ComputesAllWindowsOfNetworks) {
  for (const int64_t size : {3, 5, 7}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (int64_t in = 1; in <= 13; ++in) {
        const int64_t half = size / 2;
        const Window window = WindowOf(in, size, stride, half, half);
        ExpectRight({.batch = 2, .channels = 16, .h = window, .w = window});
      }
    }
  }
}

TEST_P(DirectDepthwiseTest, ComputesAllChannelCounts) {
  const Window window = WindowOf(6, 3, 1, 1, 1);
  for (int64_t channels = 8; channels <= 150; ++channels) {
    if (!DirectDepthwise::Supports(channels)) continue;
    ExpectRight({.batch = 1, .channels = channels, .h = window, .w = window});
  }
}

// These channel counts take several blocks, the last of which is only partly filled.
TEST_P(DirectDepthwiseTest, ComputesManyChannels) {
  for (const int64_t channels : {230, 250, 300, 700}) {
    for (const int64_t size : {3, 5, 7}) {
      for (const int64_t stride : {1, 2}) {
        const Window window = WindowOf(10, size, stride, size / 2, size / 2);
        ExpectRight({.batch = 1, .channels = channels, .h = window, .w = window});
      }
    }
  }
}

// With padding SAME, a 5x5 window with stride 2 pads an image of even width by one column on the
// left and two on the right.
TEST_P(DirectDepthwiseTest, ComputesWindowsWithMoreColumnsOutsideOnTheRight) {
  for (const int64_t in : {8, 10, 16, 24}) {
    const Window window = WindowOf(in, 5, 2, 1, 2);
    ExpectRight({.batch = 2, .channels = 48, .h = window, .w = window});
  }
}

TEST_P(DirectDepthwiseTest, ComputesUnevenPaddingsAndWindows) {
  for (const int64_t before : {0, 1, 2, 4}) {
    for (const int64_t after : {0, 1, 3}) {
      for (const int64_t stride : {1, 2}) {
        ExpectRight({.batch = 1,
                     .channels = 17,
                     .h = WindowOf(9, 2, stride, after, before),
                     .w = WindowOf(11, 3, stride, before, after)});
        ExpectRight({.batch = 1,
                     .channels = 17,
                     .h = WindowOf(9, 5, stride, before, after),
                     .w = WindowOf(8, 1, stride, after, before)});
      }
    }
  }
}

TEST_P(DirectDepthwiseTest, ComputesDilatedWindows) {
  for (const int64_t dilation : {2, 3, 5}) {
    for (const int64_t before : {0, 1, 2, 6}) {
      ExpectRight({.batch = 2,
                   .channels = 20,
                   .h = WindowOf(9, 3, 1, before, 6, dilation),
                   .w = WindowOf(11, 3, 2, 5, before, dilation)});
    }
  }
}

TEST_P(DirectDepthwiseTest, WindowsOutsideTheImageGiveTheBias) {
  const Window window = WindowOf(2, 3, 1, 7, 7);
  ExpectRight({.batch = 1, .channels = 16, .h = window, .w = window});
}

TEST_P(DirectDepthwiseTest, EpilogueAddsToEachPixel) {
  const Window window = WindowOf(6, 3, 1, 1, 1);
  DirectDepthwise d = {.batch = 2, .channels = 24, .h = window, .w = window};
  Graph graph;
  const Scope root(&graph);
  NodeBuilder build = root.WithName("fused").Build(
      FusedOps(), ops::Fused(ops::kDepthwiseConv2dNative, {.add = true, .activation = ops::kRelu}));
  const Shape shape({2, 6, 6, 24});
  for (const Shape& input : {shape, Shape({3, 3, 24, 1}), Shape({24}), shape}) {
    build.Input(ops::Placeholder(root, DT_FLOAT, input));
  }
  const Output fused = std::move(build)
                           .Attr("strides", AttrValue::List<int64_t>({1, 1, 1, 1}))
                           .Attr("padding", "SAME")
                           .One();
  ASSERT_TRUE(root.ok()) << root.status();
  const std::vector<float> images = Numbers(InFloats(d), 1), filter = Numbers(9 * 24, 2);
  const std::vector<float> bias = Numbers(24, 3), addend = Numbers(OutFloats(d), 4);
  std::vector<float> sums(OutFloats(d)), got = sums;
  d.Run(images.data(), filter.data(), bias.data(), nullptr, sums.data());
  d.epilogue = Epilogue::Of(*fused.node);
  d.Run(images.data(), filter.data(), bias.data(), addend.data(), got.data());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], std::max(sums[i] + addend[i], 0.0f)) << i;
  }
}

// Padding must not multiply infinite filter elements by 0.
TEST_P(DirectDepthwiseTest, InfiniteTapsOutsideTheImageAreIgnored) {
  const Window window = WindowOf(8, 3, 1, 1, 1);
  const DirectDepthwise d = {.batch = 1, .channels = 16, .h = window, .w = window};
  const std::vector<float> images(InFloats(d), 1.0f);
  std::vector<float> filter(9 * d.channels, 1.0f), out(OutFloats(d));
  std::fill_n(filter.begin(), d.channels, std::numeric_limits<float>::infinity());
  d.Run(images.data(), filter.data(), nullptr, nullptr, out.data());
  EXPECT_EQ(out[0], 4);
  EXPECT_EQ(out[(window.out + 1) * d.channels], std::numeric_limits<float>::infinity());
}

TEST_P(DirectDepthwiseTest, ImagesDoNotDependOnTheBatch) {
  const Window window = WindowOf(7, 5, 2, 2, 2);
  const DirectDepthwise one = {.batch = 1, .channels = 24, .h = window, .w = window};
  DirectDepthwise three = one;
  three.batch = 3;
  const std::vector<float> images = Numbers(InFloats(three), 1), filter = Numbers(25 * 24, 2);
  std::vector<float> got(OutFloats(three)), want(OutFloats(one));
  three.Run(images.data(), filter.data(), nullptr, nullptr, got.data());
  one.Run(images.data() + 2 * InFloats(one), filter.data(), nullptr, nullptr, want.data());
  EXPECT_EQ(std::vector<float>(got.end() - OutFloats(one), got.end()), want);
}

}  // namespace
}  // namespace mirrorflow
