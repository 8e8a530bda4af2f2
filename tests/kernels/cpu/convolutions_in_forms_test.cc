// SPDX-License-Identifier: Apache-2.0
//
// Tests Winograd and PackedConvolution, which compute convolutions whose filters are kept in forms.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/packed_convolution.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/cpu/winograd.h"
#include "kernels/cpu/winograd_filter_gradient.h"
#include "ops/window.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

// The height or width of the images, and the windows along it.
struct Axis {
  Axis(int64_t in) : in(in) {}  // NOLINT: an axis with the usual windows
  Axis(int64_t in, int64_t before, int64_t after, int64_t size = 3, int64_t stride = 1,
       int64_t dilation = 1)
      : in(in), before(before), after(after), size(size), stride(stride), dilation(dilation) {}

  Window window() const {
    Window w = {.in = in, .size = size, .stride = stride, .before = before, .dilation = dilation};
    w.out = (before + in + after - w.extent()) / stride + 1;
    return w;
  }

  int64_t in;
  int64_t before = 1, after = 1;  // padding
  int64_t size = 3, stride = 1, dilation = 1;
};

struct Case {
  int64_t batch;
  Axis h, w;
  int64_t in_channels, out_channels;
};

std::string NameOf(const Case& c) {
  const auto name = [](const Axis& a) {
    return absl::StrCat(a.in, " with padding ", a.before, " and ", a.after, ", size ", a.size,
                        ", stride ", a.stride, ", dilation ", a.dilation);
  };
  return absl::StrCat("batch ", c.batch, ", height ", name(c.h), ", width ", name(c.w), ", ",
                      c.in_channels, " to ", c.out_channels, " channels");
}

ConvolutionGeometry GeometryOf(const Case& c) {
  return {.batch = c.batch,
          .in_channels = c.in_channels,
          .out_channels = c.out_channels,
          .h = c.h.window(),
          .w = c.w.window()};
}

// Returns `g` with gaps between the output pixels.
ConvolutionGeometry WithGaps(ConvolutionGeometry g) {
  g.out_stride = g.out_channels + 3;
  return g;
}

std::vector<float> RandomFloats(int64_t n, uint64_t seed) {
  Random random(seed);
  const Tensor tensor = RandomTensor(DT_FLOAT, {n}, &random);
  return {tensor.data<float>(), tensor.data<float>() + n};
}

// A convolution with random operands.
struct Problem {
  explicit Problem(const Case& c)
      : g(WithGaps(GeometryOf(c))),
        images(RandomFloats(g.batch * g.h.in * g.w.in * g.in_channels, 1)),
        filter(RandomFloats(g.h.size * g.w.size * g.in_channels * g.out_channels, 2)),
        bias(RandomFloats(g.out_channels, 3)),
        out_size(g.batch * g.h.out * g.w.out * g.out_channels) {}

  // Calls use(output, product) for each product of a pixel and an element of the filter.
  template <typename Use>
  void ForEachProduct(Use use) const {
    for (int64_t at = 0; at < out_size; ++at) {
      const int64_t channel = at % g.out_channels, pixel = at / g.out_channels;
      const int64_t x = pixel % g.w.out, y = pixel / g.w.out % g.h.out;
      const int64_t image = pixel / g.w.out / g.h.out;
      for (int64_t i = g.h.first_tap(y); i < g.h.last_tap(y); ++i) {
        for (int64_t j = g.w.first_tap(x); j < g.w.last_tap(x); ++j) {
          const int64_t row = g.h.start(y) + i * g.h.dilation;
          const int64_t from = (image * g.h.in + row) * g.w.in + g.w.start(x) + j * g.w.dilation;
          for (int64_t c = 0; c < g.in_channels; ++c) {
            use(at,
                static_cast<double>(images[from * g.in_channels + c]) *
                    filter[((i * g.w.size + j) * g.in_channels + c) * g.out_channels + channel]);
          }
        }
      }
    }
  }

  // Returns the output without gaps. Expects that the algorithm finishes each pixel once, in order,
  // after writing it, and that it does not write to the gaps.
  template <typename Algorithm>
  std::vector<float> Run(const Algorithm& algorithm, const float* addend) const {
    const auto allocate = [](int64_t floats) {
      return *Tensor::Allocate(DT_FLOAT, {floats});  // aligned, unlike a vector
    };
    const Tensor form = allocate(algorithm.FormFloats());
    const Tensor scratch = allocate(algorithm.ScratchFloats());
    algorithm.MakeForm(filter.data(), form.data<float>());
    const int64_t out_pixels = out_size / g.out_channels;
    std::vector<float> out(out_pixels * g.out_stride, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> without_gaps;
    algorithm.Run(images.data(), form.data<float>(), addend, out.data(), scratch.data<float>(),
                  [&](int64_t first, int64_t pixels) {
                    EXPECT_EQ(first * g.out_channels, without_gaps.size());
                    for (int64_t i = first * g.out_stride; i < (first + pixels) * g.out_stride;
                         ++i) {
                      const bool is_gap = i % g.out_stride >= g.out_channels;
                      EXPECT_EQ(std::isnan(out[i]), is_gap) << "element " << i;
                      if (!is_gap) without_gaps.push_back(out[i]);
                    }
                  });
    EXPECT_EQ(without_gaps.size(), out_size);
    return without_gaps;
  }

  ConvolutionGeometry g;
  std::vector<float> images, filter, bias;
  int64_t out_size;
};

enum class Algorithm { kWinogradOf2, kWinogradOf4, kPacked };

std::string NameOf(Algorithm algorithm) {
  constexpr const char* kNames[] = {"WinogradOf2", "WinogradOf4", "Packed"};
  return kNames[static_cast<int>(algorithm)];
}

std::vector<float> ResultOf(Algorithm algorithm, const Problem& problem,
                            const float* bias = nullptr) {
  switch (algorithm) {
    case Algorithm::kWinogradOf2:
      return problem.Run(Winograd(problem.g, 2), bias);
    case Algorithm::kWinogradOf4:
      return problem.Run(Winograd(problem.g, 4), bias);
    case Algorithm::kPacked:
      return problem.Run(PackedConvolution(problem.g), bias);
  }
  return {};
}

// Errors are relative to the largest sum of absolute products, as in winograd_steps_test.cc.
void ExpectTheValuesOfDouble(Algorithm algorithm, const Case& c) {
  SCOPED_TRACE(NameOf(c));
  const Problem problem(c);
  std::vector<double> want(problem.out_size), sizes(problem.out_size);
  problem.ForEachProduct([&](int64_t at, double product) {
    want[at] += product;
    sizes[at] += std::abs(product);
  });
  const double size = *std::max_element(sizes.begin(), sizes.end());
  const std::vector<float> got = ResultOf(algorithm, problem, problem.bias.data());
  for (int64_t i = 0; i < problem.out_size; ++i) {
    ASSERT_NEAR(got[i], want[i] + problem.bias[i % c.out_channels], std::ldexp(size, -20))
        << "element " << i;
  }
}

class ConvolutionsInFormsTest : public testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(Algorithms, ConvolutionsInFormsTest,
                         testing::Values(Algorithm::kWinogradOf2, Algorithm::kWinogradOf4,
                                         Algorithm::kPacked),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(ConvolutionsInFormsTest, MatchDoublePrecision) {
  for (const Case& c : std::vector<Case>{{1, 8, 8, 8, 8},
                                         {2, 7, 5, 16, 24},
                                         {3, 1, 1, 8, 16},
                                         {1, 1, 6, 8, 8},
                                         {2, {3, 0, 0}, {4, 0, 0}, 8, 8},
                                         {2, {9, 0, 1}, {10, 1, 0}, 24, 8},
                                         {1, {6, 1, 0}, {8, 0, 1}, 8, 16},
                                         {2, {5, 2, 1}, {6, 0, 2}, 8, 16},
                                         {1, 5, 210, 8, 8},  // several blocks per row of tiles
                                         {2, 30, 31, 8, 8},  // several rows of tiles per block
                                         {1, 4, 4, 1032, 8}}) {
    ExpectTheValuesOfDouble(GetParam(), c);
  }
}

TEST_P(ConvolutionsInFormsTest, ImageHasSameBitsInEachBatch) {
  constexpr int64_t kImages = 5;
  const Problem whole({kImages, 9, 10, 16, 16});
  const std::vector<float> all = ResultOf(GetParam(), whole);
  Problem one({1, 9, 10, 16, 16});
  const auto image_size = static_cast<int64_t>(one.images.size());
  for (int64_t i = 0; i < kImages; ++i) {
    std::copy_n(whole.images.begin() + i * image_size, image_size, one.images.begin());
    const std::vector<float> got = ResultOf(GetParam(), one);
    EXPECT_EQ(std::memcmp(got.data(), all.data() + i * one.out_size, got.size() * sizeof(float)), 0)
        << "image " << i;
  }
}

TEST(WinogradTest, SupportsOnlyWindowsOf3x3WithStride1) {
  const ConvolutionGeometry g = GeometryOf({1, 8, 8, 8, 8});
  EXPECT_TRUE(Winograd::Supports(g));
  const auto supports = [&](auto change) {
    ConvolutionGeometry changed = g;
    change(changed);
    return Winograd::Supports(changed);
  };
  EXPECT_FALSE(supports([](ConvolutionGeometry& c) { c.nchw = true; }));
  EXPECT_FALSE(supports([](ConvolutionGeometry& c) { c.groups = 2; }));
  EXPECT_FALSE(supports([](ConvolutionGeometry& c) { c.in_channels = 12; }));
  EXPECT_FALSE(supports([](ConvolutionGeometry& c) { c.out_channels = 3; }));
  EXPECT_FALSE(supports([](ConvolutionGeometry& c) { c.h = Axis(8, 1, 1, 3, 2).window(); }));
  EXPECT_FALSE(supports([](ConvolutionGeometry& c) { c.w = Axis(8, 1, 1, 3, 1, 2).window(); }));
  EXPECT_FALSE(supports([](ConvolutionGeometry& c) { c.w = Axis(8, 1, 1, 5).window(); }));
  EXPECT_FALSE(supports([](ConvolutionGeometry& c) { c.h = Axis(8, 3, 1).window(); }));
  EXPECT_FALSE(supports([](ConvolutionGeometry& c) { c.h = Axis(8, 1, 3).window(); }));
  // Its form could not be addressed.
  EXPECT_FALSE(
      supports([](ConvolutionGeometry& c) { c.in_channels = c.out_channels = int64_t{1} << 28; }));
}

TEST(WinogradTest, ChoosesTileByPixelsAndChannels) {
  const auto tile = [](const Case& c) {
    return Winograd::FastestTile(GeometryOf(c), Winograd::Windows::kAsStored,
                                 /*makes_form=*/false);
  };
  EXPECT_EQ(tile({1, 56, 56, 64, 64}), 4);
  EXPECT_EQ(tile({32, 4, 4, 512, 512}), 4);
  EXPECT_EQ(tile({1, 7, 7, 512, 512}), 2);  // the larger form would take longer to read
  EXPECT_EQ(tile({1, 2, 2, 512, 512}), 0);
  EXPECT_EQ(tile({32, 7, 7, 16, 16}), 0);
}

TEST(WinogradTest, MakesFormEachTimeOnlyForManyPixels) {
  const auto tile = [](const Case& c, Winograd::Windows windows) {
    return Winograd::FastestTile(GeometryOf(c), windows, /*makes_form=*/true);
  };
  for (const auto windows : {Winograd::Windows::kAsStored, Winograd::Windows::kRotated}) {
    EXPECT_EQ(tile({16, 16, 16, 128, 128}, windows), 4);
    EXPECT_EQ(tile({1, 7, 7, 512, 512}, windows), 0);
    EXPECT_EQ(tile({64, 8, 8, 2048, 2048}, windows), 0);  // takes too much memory
  }
  // oneDNN takes time to reorder the filter for the convolution, but hardly any for the gradient.
  EXPECT_EQ(tile({16, 2, 2, 256, 256}, Winograd::Windows::kAsStored), 2);
  EXPECT_EQ(tile({16, 2, 2, 256, 256}, Winograd::Windows::kRotated), 0);
}

TEST(WinogradFilterGradientTest, ChoosesTileByTilesAndChannels) {
  const auto tile = [](const Case& c) {
    return WinogradFilterGradient::FastestTile(GeometryOf(c));
  };
  EXPECT_EQ(tile({16, 8, 8, 64, 64}), 4);
  EXPECT_EQ(tile({16, 2, 2, 512, 512}), 2);
  EXPECT_EQ(tile({1, 1, 1, 1024, 1024}), 0);
  EXPECT_EQ(tile({64, 8, 8, 2048, 2048}), 0);  // takes too much memory
}

TEST(PackedConvolutionTest, AnyWindowsMatchDoublePrecision) {
  for (const Case& c :
       std::vector<Case>{{2, {9, 0, 1, 3, 2}, {8, 1, 0, 3, 2}, 12, 5},
                         {1, {7, 3, 2, 7, 2}, {9, 2, 3, 7, 1}, 3, 17},
                         {3, {6, 0, 0, 1, 1}, {7, 3, 3, 7, 1}, 40, 16},
                         {1, {9, 2, 2, 3, 1, 2}, {11, 3, 3, 3, 1, 3}, 4, 8},
                         {1, {4, 4, 4, 2, 3}, {5, 4, 4, 2, 3}, 8, 8}}) {  // windows in the padding
    ExpectTheValuesOfDouble(Algorithm::kPacked, c);
  }
}

TEST(PackedConvolutionTest, WithoutAvx512LargeWindowsOverManyChannelsAreFaster) {
  internal::forbid_avx512 = true;
  const auto is_faster = [](const Case& c) { return PackedConvolution::IsFaster(GeometryOf(c)); };
  const Case large{1, {28, 0, 1, 3, 2}, {28, 0, 1, 3, 2}, 256, 256};
  EXPECT_TRUE(is_faster(large));
  EXPECT_TRUE(is_faster({4, {6, 0, 0, 1}, {6, 3, 3, 7}, 192, 192}));
  EXPECT_FALSE(is_faster({1, {28, 0, 0, 1}, {28, 0, 0, 1}, 256, 256}));
  EXPECT_FALSE(is_faster({1, {28, 2, 2, 5}, {28, 2, 2, 5}, 16, 32}));
  internal::forbid_avx512 = false;
  EXPECT_EQ(is_faster(large), !ProcessorHasAvx512());
}

}  // namespace
}  // namespace mirrorflow
