// SPDX-License-Identifier: Apache-2.0
//
// Tests convolutions in steps that do not write the filter, most of them by Winograd's algorithm
// (kernels/cpu/winograd.h). Without AVX-512, some strided convolutions run
// packed_convolution.h instead.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/session/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/instruction_set.h"
#include "ops/all/ops.h"
#include "tests/support/tensors.h"
#include "tests/support/test_session.h"

namespace mirrorflow {
namespace {

struct Case {
  int64_t batch, h, w, in, out;
  const char* padding = "SAME";
  bool nchw = false;
  int64_t stride = 1;
  bool fused = false;  // with a bias, an addend and Relu
};

// Applies ONEDNN_MAX_CPU_ISA, which the AVX2 variant of this test sets, to all kernels.
class InstructionSetEnvironment : public testing::Environment {
  void SetUp() override { ASSERT_TRUE(LimitInstructionSet(UsableInstructionSet()).ok()); }
};
const testing::Environment* const kInstructionSet =
    testing::AddGlobalTestEnvironment(new InstructionSetEnvironment);

std::string NameOf(const Case& c) {
  return absl::StrCat("batch ", c.batch, ", ", c.h, "x", c.w, ", ", c.in, " to ", c.out,
                      " channels, ", c.padding, c.nchw ? ", NCHW" : "", ", stride ", c.stride,
                      c.fused ? ", fused" : "");
}

double ToDouble(float x) { return x; }
double ToAbsolute(float x) { return std::abs(x); }

// One convolution whose filter is a constant, so the session may keep it transformed.
class Convolution {
 public:
  explicit Convolution(const Case& c, bool allow_winograd = true) : case_(c) {
    Random random(1);
    filter_ = RandomTensor(DT_FLOAT, {3, 3, c.in, c.out}, &random);
    bias_ = RandomTensor(DT_FLOAT, {c.out}, &random);
    images_ = ops::Placeholder(root_, DT_FLOAT, images(-1));
    addend_ = ops::Placeholder(root_, DT_FLOAT, outputs(-1));
    result_ = Build(images_, ops::Const(root_, filter_), ops::Const(root_, bias_), addend_);
    fed_images_ = ops::Placeholder(root_, DT_DOUBLE, images(-1));
    fed_filter_ = ops::Placeholder(root_, DT_DOUBLE, filter_.shape());
    fed_bias_ = ops::Placeholder(root_, DT_DOUBLE, bias_.shape());
    fed_addend_ = ops::Placeholder(root_, DT_DOUBLE, outputs(-1));
    in_double_ = Build(fed_images_, fed_filter_, fed_bias_, fed_addend_);
    TestSessionOptions options;
    options.session.compile.kernels.allow_winograd = allow_winograd;
    session_ = CreateTestSession(graph_, options).value();
  }

  Shape images(int64_t batch) const {
    return case_.nchw ? Shape({batch, case_.in, case_.h, case_.w})
                      : Shape({batch, case_.h, case_.w, case_.in});
  }
  // Only for fused convolutions: NHWC with padding SAME.
  Shape outputs(int64_t batch) const {
    return {batch, (case_.h - 1) / case_.stride + 1, (case_.w - 1) / case_.stride + 1, case_.out};
  }
  Tensor RandomImages(int64_t batch) const {
    Random random(2);
    return RandomTensor(DT_FLOAT, images(batch), &random);
  }
  Tensor Run(const Tensor& in) const {
    std::vector<std::pair<Output, Tensor>> feeds = {{images_, in}};
    if (case_.fused) feeds.emplace_back(addend_, AddendOf(in));
    return session_->Run(feeds, {result_}).value()[0];
  }
  Tensor RunInDouble(const Tensor& in, double (*fn)(float)) const {
    std::vector<std::pair<Output, Tensor>> feeds = {{fed_images_, MapFloats(in, fn)},
                                                    {fed_filter_, MapFloats(filter_, fn)}};
    if (case_.fused) {
      feeds.emplace_back(fed_bias_, MapFloats(bias_, fn));
      feeds.emplace_back(fed_addend_, MapFloats(AddendOf(in), fn));
    }
    return session_->Run(feeds, {in_double_}).value()[0];
  }
  // Returns how many times as large as the filter its form is: 16/9 or 4 times if it is
  // transformed.
  double RelativeFormSize() const {
    return static_cast<double>(session_->forms().bytes()) / static_cast<double>(filter_.bytes());
  }
  int64_t num_forms_made() const { return session_->forms().num_made(); }

 private:
  Output Build(Output images, Output filter, Output bias, Output addend) {
    ops::Conv2DOptions options;
    if (case_.nchw) options.data_format = "NCHW";
    const std::vector<int64_t> strides = {1, case_.stride, case_.stride, 1};
    const Output sums = ops::Conv2D(root_, images, filter, strides, case_.padding, options);
    if (!case_.fused) return sums;
    return ops::Relu(root_, ops::AddV2(root_, ops::BiasAdd(root_, sums, bias), addend));
  }
  Tensor AddendOf(const Tensor& in) const {
    Random random(3);
    return RandomTensor(DT_FLOAT, outputs(in.shape().dim(0)), &random);
  }

  const Case case_;
  Graph graph_;
  Scope root_{&graph_};
  Tensor filter_, bias_;
  Output images_, addend_, result_;
  Output fed_images_, fed_filter_, fed_bias_, fed_addend_, in_double_;
  std::unique_ptr<Session> session_;
};

// The error of an output is relative to the largest output's sum of absolute terms, because the
// algorithm adds and subtracts the inputs of adjacent pixels. Direct sums have errors of 2^-23
// here, and the transforms of 4x4 tiles multiply these by about 4.
void ExpectTheValuesOfDouble(const Case& c) {
  SCOPED_TRACE(NameOf(c));
  const Convolution convolution(c);
  const Tensor in = convolution.RandomImages(c.batch);
  const Tensor got = convolution.Run(in);
  const bool is_transformed = c.stride == 1 && !c.nchw;
  EXPECT_EQ(convolution.RelativeFormSize() > 1.7, is_transformed);
  const Tensor want = convolution.RunInDouble(in, ToDouble);
  const Tensor sizes = convolution.RunInDouble(in, ToAbsolute);
  ASSERT_EQ(got.shape(), want.shape());
  const double size =
      *std::max_element(sizes.data<double>(), sizes.data<double>() + sizes.num_elements());
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    ASSERT_NEAR(got.data<float>()[i], want.data<double>()[i], std::ldexp(size, -20))
        << "element " << i;
  }
}

TEST(WinogradStepsTest, MatchesDoublePrecision) {
  for (const Case& c : std::vector<Case>{{1, 14, 14, 64, 64},
                                         {4, 14, 14, 64, 96},
                                         {3, 15, 13, 48, 32},
                                         {5, 9, 11, 32, 48},
                                         {1, 30, 28, 128, 128},
                                         {4, 16, 16, 128, 64},
                                         {4, 18, 19, 80, 192, "VALID"},
                                         {1, 7, 7, 512, 512}}) {
    ExpectTheValuesOfDouble(c);
  }
}

TEST(WinogradStepsTest, FusedConvolutionsMatchDoublePrecision) {
  for (const int64_t stride : {1, 2}) {
    for (const int64_t batch : {1, 5}) {
      ExpectTheValuesOfDouble(
          {batch, 14, 15, 96, 128, "SAME", /*nchw=*/false, stride, /*fused=*/true});
    }
  }
}

TEST(WinogradStepsTest, ChannelsFirstLayoutIsComputedDirectly) {
  ExpectTheValuesOfDouble({2, 14, 14, 64, 64, "SAME", /*nchw=*/true});
}

TEST(WinogradStepsTest, OptionDisablesIt) {
  const Case c{1, 14, 14, 64, 64};
  const Convolution convolution(c, /*allow_winograd=*/false);
  convolution.Run(convolution.RandomImages(c.batch));
  EXPECT_LE(convolution.RelativeFormSize(), 1.0);
}

TEST(WinogradStepsTest, FewPixelsOrChannelsAreComputedDirectly) {
  for (const Case& c : {Case{1, 3, 3, 64, 64}, Case{1, 2, 2, 512, 512}, Case{4, 14, 14, 3, 64}}) {
    SCOPED_TRACE(NameOf(c));
    const Convolution convolution(c);
    convolution.Run(convolution.RandomImages(c.batch));
    EXPECT_LE(convolution.RelativeFormSize(), 1.0);
  }
}

TEST(WinogradStepsTest, ImageHasSameBitsInEachBatch) {
  const Convolution convolution({-1, 14, 14, 64, 64});
  const Tensor images = convolution.RandomImages(6);
  const Tensor all = convolution.Run(images);
  for (int64_t batch = 1; batch < 6; ++batch) {
    const Tensor first = *Tensor::Allocate(DT_FLOAT, convolution.images(batch));
    std::memcpy(first.raw(), images.raw(), first.bytes());
    const Tensor some = convolution.Run(first);
    EXPECT_EQ(std::memcmp(some.raw(), all.raw(), some.bytes()), 0) << batch << " images";
  }
  EXPECT_EQ(convolution.num_forms_made(), 1);
}

TEST(WinogradStepsTest, NanSpreadsOnlyToAdjacentPixels) {
  constexpr int64_t kSize = 28, kChannels = 64;
  const Convolution convolution({2, kSize, kSize, kChannels, kChannels});
  const Tensor in = convolution.RandomImages(2);
  const Tensor finite = convolution.Run(in);
  in.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const Tensor got = convolution.Run(in);
  EXPECT_TRUE(std::isnan(got.data<float>()[0]));
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const int64_t pixel = i / kChannels, y = pixel / kSize, x = pixel % kSize;
    if (y < 6 && x < 6) continue;
    ASSERT_EQ(got.data<float>()[i], finite.data<float>()[i]) << "element " << i;
  }
}

}  // namespace
}  // namespace mirrorflow
