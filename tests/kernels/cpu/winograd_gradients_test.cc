// SPDX-License-Identifier: Apache-2.0
//
// Tests convolutions of 3x3 windows and their gradients in steps in which the filter can change
// each time, as in training (kernels/cpu/winograd.h, winograd_filter_gradient.h).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/session/session.h"
#include "gtest/gtest.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/cpu/winograd.h"
#include "kernels/cpu/winograd_filter_gradient.h"
#include "ops/all/ops.h"
#include "ops/window.h"
#include "tests/support/op_checks.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

// Applies ONEDNN_MAX_CPU_ISA, which the AVX2 variant of this test sets, to all kernels.
class InstructionSetEnvironment : public testing::Environment {
  void SetUp() override { ASSERT_TRUE(LimitInstructionSet(UsableInstructionSet()).ok()); }
};
const testing::Environment* const kInstructionSet =
    testing::AddGlobalTestEnvironment(new InstructionSetEnvironment);

std::vector<float> RandomFloats(int64_t count, Random* random) {
  const Tensor t = RandomTensor(DT_FLOAT, {count}, random);
  return {t.data<float>(), t.data<float>() + count};
}

std::string NameOf(const ConvolutionGeometry& g, int64_t tile) {
  return absl::StrCat(g.batch, " images of ", g.h.in, "x", g.w.in, ", padding ", g.h.before, " ",
                      g.h.after(), " ", g.w.before, " ", g.w.after(), ", ", g.in_channels, " to ",
                      g.out_channels, " channels, tile ", tile);
}

// A convolution and its gradients in double precision, and the sums of the absolute values of
// their terms.
struct Reference {
  Reference(const ConvolutionGeometry& g, const std::vector<float>& images,
            const std::vector<float>& filter, const std::vector<float>& gradient)
      : output(gradient.size()), of_images(images.size()), of_filter(filter.size()) {
    for (int64_t n = 0; n < g.batch; ++n) {
      for (int64_t y = 0; y < g.h.out; ++y) {
        for (int64_t x = 0; x < g.w.out; ++x) {
          AddWindow(g, n, y, x, images, filter, gradient);
        }
      }
    }
  }
  struct Sum {
    double value = 0, size = 0;
    void Add(double term) {
      value += term;
      size += std::abs(term);
    }
  };
  void AddWindow(const ConvolutionGeometry& g, int64_t n, int64_t y, int64_t x,
                 const std::vector<float>& images, const std::vector<float>& filter,
                 const std::vector<float>& gradient) {
    const int64_t to = ((n * g.h.out + y) * g.w.out + x) * g.out_channels;
    for (int64_t i = g.h.first_tap(y); i < g.h.last_tap(y); ++i) {
      for (int64_t j = g.w.first_tap(x); j < g.w.last_tap(x); ++j) {
        const int64_t pixel = (n * g.h.in + g.h.start(y) + i) * g.w.in + g.w.start(x) + j;
        for (int64_t c = 0; c < g.in_channels; ++c) {
          const int64_t from = pixel * g.in_channels + c;
          const int64_t weight = ((i * 3 + j) * g.in_channels + c) * g.out_channels;
          for (int64_t k = 0; k < g.out_channels; ++k) {
            output[to + k].Add(double{images[from]} * filter[weight + k]);
            of_images[from].Add(double{gradient[to + k]} * filter[weight + k]);
            of_filter[weight + k].Add(double{gradient[to + k]} * images[from]);
          }
        }
      }
    }
  }

  std::vector<Sum> output, of_images, of_filter;
};

// Errors are relative to the largest sum of absolute terms, because the algorithm adds and
// subtracts adjacent pixels.
void ExpectNear(absl::string_view what, const std::vector<float>& got,
                const std::vector<Reference::Sum>& want) {
  double size = 0;
  for (const Reference::Sum& sum : want) size = std::max(size, sum.size);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i].value, std::ldexp(size, -20)) << what << ", element " << i;
  }
}

void ExpectValuesOfReference(const ConvolutionGeometry& g, int64_t tile) {
  SCOPED_TRACE(NameOf(g, tile));
  ASSERT_TRUE(Winograd::Supports(g));
  Random random(1);
  const auto images = RandomFloats(g.batch * g.h.in * g.w.in * g.in_channels, &random);
  const auto filter = RandomFloats(9 * g.in_channels * g.out_channels, &random);
  const auto gradient = RandomFloats(g.batch * g.h.out * g.w.out * g.out_channels, &random);
  const Reference want(g, images, filter, gradient);

  // Forms and scratch memory hold vectors.
  // What they hold before does not matter.
  const auto allocate = [](int64_t floats) {
    const Tensor t = *Tensor::Allocate(DT_FLOAT, {floats});
    std::fill_n(t.data<float>(), floats, std::numeric_limits<float>::quiet_NaN());
    return t;
  };
  const auto convolve = [&](const Winograd& winograd, const std::vector<float>& from,
                            std::vector<float>* out) {
    const Tensor form = allocate(winograd.FormFloats());
    const Tensor scratch = allocate(winograd.ScratchFloats());
    winograd.MakeForm(filter.data(), form.data<float>());
    winograd.Run(from.data(), form.data<float>(), nullptr, out->data(), scratch.data<float>(),
                 [](int64_t, int64_t) {});
  };
  std::vector<float> output(gradient.size()), of_images(images.size()), of_filter(filter.size());
  convolve(Winograd(g, tile), images, &output);
  convolve(Winograd(Winograd::GradientOfImages(g), tile, Winograd::Windows::kRotated), gradient,
           &of_images);
  const WinogradFilterGradient filter_gradient(g, tile);
  const Tensor scratch = allocate(filter_gradient.ScratchFloats());
  filter_gradient.Run(images.data(), gradient.data(), of_filter.data(), scratch.data<float>());

  ExpectNear("output", output, want.output);
  ExpectNear("gradient of the images", of_images, want.of_images);
  ExpectNear("gradient of the filter", of_filter, want.of_filter);
}

struct Axis {
  Axis(int64_t size, int64_t before = 1, int64_t after = 1)  // NOLINT: `size` alone is clear
      : window{.in = size, .out = size + before + after - 2, .size = 3, .before = before} {}
  Window window;
};

ConvolutionGeometry GeometryOf(int64_t batch, const Axis& h, const Axis& w, int64_t in,
                               int64_t out) {
  return {.batch = batch, .in_channels = in, .out_channels = out, .h = h.window, .w = w.window};
}

TEST(WinogradGradientsTest, MatchDoublePrecisionWithAnyPadding) {
  for (const int64_t tile : {2, 4}) {
    for (int64_t before = 0; before <= 2; ++before) {
      for (int64_t after = 0; after <= 2; ++after) {
        ExpectValuesOfReference(GeometryOf(2, {9, before, after}, {6, after, 1}, 16, 24), tile);
      }
    }
  }
}

TEST(WinogradGradientsTest, MatchDoublePrecisionForAnySizes) {
  Random random(7);
  const auto between = [&](int64_t least, int64_t most) {
    return least + random.Below(most - least + 1);
  };
  for (int i = 0; i < 40; ++i) {
    const int64_t batch = between(1, 5), h = between(1, 14), w = between(1, 14);
    const int64_t in = 8 * between(1, 6), out = 8 * between(1, 6);
    ExpectValuesOfReference(GeometryOf(batch, h, w, in, out), i % 2 == 0 ? 2 : 4);
  }
}

// The gradient of the filter sums over blocks of tiles.
TEST(WinogradGradientsTest, MatchDoublePrecisionForManyTiles) {
  ExpectValuesOfReference(GeometryOf(2, 5, 1100, 8, 16), 4);
  ExpectValuesOfReference(GeometryOf(9, 33, 34, 16, 8), 2);
}

// A convolution and its gradients as nodes of a graph. `constant`, if it has elements, is the
// filter.
class Nodes {
 public:
  Nodes(const Shape& images, const Shape& filter, const Shape& gradient, bool allow_winograd,
        const Tensor* constant = nullptr) {
    images_ = ops::Placeholder(root_, DT_FLOAT, images);
    fed_filter_ = ops::Placeholder(root_, DT_FLOAT, filter);
    filter_ = constant != nullptr ? ops::Const(root_, *constant) : fed_filter_;
    gradient_ = ops::Placeholder(root_, DT_FLOAT, gradient);
    const std::vector<int64_t> strides = {1, 1, 1, 1};
    const auto sizes = [&](const Shape& shape) {
      std::vector<int32_t> dims(shape.dims().begin(), shape.dims().end());
      return ops::Const(root_, Tensor::Vector<int32_t>(dims));
    };
    fetches_ = {
        ops::Conv2D(root_, images_, filter_, strides, "SAME"),
        ops::Conv2DBackpropInput(root_, sizes(images), filter_, gradient_, strides, "SAME"),
        ops::Conv2DBackpropFilter(root_, images_, sizes(filter), gradient_, strides, "SAME")};
    TestSessionOptions options;
    options.session.compile.kernels.allow_winograd = allow_winograd;
    session_ = CreateTestSession(graph_, options).value();
  }
  std::vector<Tensor> Run(const Tensor& images, const Tensor& filter, const Tensor& gradient) {
    return session_
        ->Run({{images_, images}, {fed_filter_, filter}, {gradient_, gradient}}, fetches_)
        .value();
  }
  int64_t num_forms_made() const { return session_->forms().num_made(); }

 private:
  Graph graph_;
  Scope root_{&graph_};
  Output images_, fed_filter_, filter_, gradient_;
  std::vector<Output> fetches_;
  std::unique_ptr<Session> session_;
};

// Expects nearly equal values, but other bits, because the algorithms round differently.
void ExpectToDifferInRounding(const std::vector<Tensor>& got, const std::vector<Tensor>& direct) {
  for (size_t i = 0; i < direct.size(); ++i) {
    const float* const g = got[i].data<float>();
    const float* const d = direct[i].data<float>();
    double largest = 0;
    for (int64_t e = 0; e < direct[i].num_elements(); ++e) {
      largest = std::max<double>(largest, std::abs(d[e]));
    }
    for (int64_t e = 0; e < direct[i].num_elements(); ++e) {
      ASSERT_NEAR(g[e], d[e], 1e-5 * largest) << "output " << i << ", element " << e;
    }
    EXPECT_NE(std::memcmp(g, d, got[i].bytes()), 0) << "output " << i;
  }
}

TEST(WinogradGradientsTest, NodesUseItUnlessItIsForbidden) {
  const Shape images{4, 16, 16, 64}, filter{3, 3, 64, 32}, output{4, 16, 16, 32};
  Nodes nodes(images, filter, output, /*allow_winograd=*/true);
  Nodes direct(images, filter, output, /*allow_winograd=*/false);
  for (int step = 0; step < 2; ++step) {  // with different filters
    Random random(step);
    const Tensor x = RandomTensor(DT_FLOAT, images, &random);
    const Tensor w = RandomTensor(DT_FLOAT, filter, &random);
    const Tensor dy = RandomTensor(DT_FLOAT, output, &random);
    ExpectToDifferInRounding(nodes.Run(x, w, dy), direct.Run(x, w, dy));
  }
  EXPECT_EQ(nodes.num_forms_made(), 0);
}

// Both forms have the same size.
TEST(WinogradGradientsTest, ConvolutionAndGradientOfImagesKeepDifferentFormsOfConstant) {
  const Shape images{4, 16, 16, 64}, filter{3, 3, 64, 64};
  Random random(4);
  const Tensor x = RandomTensor(DT_FLOAT, images, &random);
  const Tensor w = RandomTensor(DT_FLOAT, filter, &random);
  const Tensor dy = RandomTensor(DT_FLOAT, images, &random);
  Nodes nodes(images, filter, images, /*allow_winograd=*/true, &w);
  Nodes direct(images, filter, images, /*allow_winograd=*/false, &w);
  for (int step = 0; step < 2; ++step) {
    ExpectToDifferInRounding(nodes.Run(x, w, dy), direct.Run(x, w, dy));
  }
  EXPECT_EQ(nodes.num_forms_made(), 2);
}

TEST(WinogradGradientsTest, NanInOneImageLeavesOtherImagesAlone) {
  const Shape images{4, 16, 16, 64}, filter{3, 3, 64, 64};
  Nodes nodes(images, filter, images, /*allow_winograd=*/true);
  Random random(3);
  const Tensor x = RandomTensor(DT_FLOAT, images, &random);
  const Tensor w = RandomTensor(DT_FLOAT, filter, &random);
  const Tensor dy = RandomTensor(DT_FLOAT, images, &random);
  x.data<float>()[0] = dy.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Tensor> got = nodes.Run(x, w, dy);
  const int64_t all = images.num_elements();
  for (const int i : {0, 1}) {
    EXPECT_TRUE(std::isnan(got[i].data<float>()[0]));
    for (int64_t e = all / 4; e < all; ++e) ASSERT_FALSE(std::isnan(got[i].data<float>()[e]));
  }
  EXPECT_TRUE(std::isnan(got[2].data<float>()[4 * 64 * 64]));  // the middle of a window
}

}  // namespace
}  // namespace mirrorflow
