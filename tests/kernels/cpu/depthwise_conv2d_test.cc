// SPDX-License-Identifier: Apache-2.0
//
// Tests depthwise convolutions with dilations, which TensorFlow does not support on a CPU. The
// results must equal those of a filter with zeros between its taps.
#include "ops/depthwise_conv2d.h"

#include "framework/graph/shape_inference.h"
#include "framework/runtime/evaluate_node.h"
#include "gtest/gtest.h"
#include "kernels/cpu/all_kernels.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "tests/support/tensors.h"

namespace mirrorflow {
namespace {

// Returns the filter [h,w,c,m] with its taps spread by the dilations and zeros between them.
Tensor Spread(const Tensor& filter, int64_t h_dilation, int64_t w_dilation) {
  const Shape& shape = filter.shape();
  const int64_t columns = (shape.dim(1) - 1) * w_dilation + 1, taps = shape.dim(2) * shape.dim(3);
  Tensor spread = *Tensor::Allocate(
      DT_DOUBLE, Shape({(shape.dim(0) - 1) * h_dilation + 1, columns, shape.dim(2), shape.dim(3)}));
  for (double& v : spread.flat<double>()) v = 0;
  for (int64_t i = 0; i < shape.dim(0); ++i) {
    for (int64_t j = 0; j < shape.dim(1); ++j) {
      for (int64_t k = 0; k < taps; ++k) {
        spread.flat<double>()[((i * h_dilation) * columns + j * w_dilation) * taps + k] =
            filter.flat<double>()[(i * shape.dim(1) + j) * taps + k];
      }
    }
  }
  return spread;
}

Tensor Evaluate(Output output, std::vector<Tensor> inputs, const Scope& s) {
  EXPECT_TRUE(s.ok()) << s.status();
  const auto results = EvaluateNode(*output.node, inputs, {s.shape(output)}, CpuKernels());
  EXPECT_TRUE(results.ok()) << results.status();
  return results->at(0);
}

class DilatedDepthwise : public ::testing::TestWithParam<const char*> {
 protected:
  Output Feed(const Tensor& value) { return ops::Placeholder(s_, DT_DOUBLE, value.shape()); }
  ops::DepthwiseConv2dOptions Dilated() const {
    return {.data_format = "NHWC", .dilations = {1, 2, 3, 1}};
  }

  Graph graph_;
  const Scope s_{&graph_};
  Random random_{3};
  const Tensor images_ = RandomTensor(DT_DOUBLE, {2, 9, 8, 3}, &random_);
  const Tensor filter_ = RandomTensor(DT_DOUBLE, {3, 2, 3, 2}, &random_);
  const Tensor spread_ = Spread(filter_, 2, 3);
  const int64_t strides_[4] = {1, 2, 1, 1};
  const char* padding_ = GetParam();
};

TEST_P(DilatedDepthwise, MatchesFilterWithZerosBetweenTaps) {
  const Tensor want =
      Evaluate(ops::DepthwiseConv2dNative(s_, Feed(images_), Feed(spread_), strides_, padding_),
               {images_, spread_}, s_);
  const Tensor got = Evaluate(
      ops::DepthwiseConv2dNative(s_, Feed(images_), Feed(filter_), strides_, padding_, Dilated()),
      {images_, filter_}, s_);
  EXPECT_EQ(Difference(want, got, {.relative = 1e-12, .absolute = 1e-12}), "");
}

TEST_P(DilatedDepthwise, GradientsMatchFilterWithZerosBetweenTaps) {
  const Output y =
      ops::DepthwiseConv2dNative(s_, Feed(images_), Feed(filter_), strides_, padding_, Dilated());
  const Tensor dy = RandomTensor(DT_DOUBLE, s_.shape(y), &random_);
  auto sizes = [&](const Tensor& of) { return ops::VectorConst(s_, of.shape().dims()); };
  auto sizes_value = [](const Tensor& of) {
    const absl::Span<const int64_t> dims = of.shape().dims();
    return Tensor::Vector<int32_t>(std::vector<int32_t>(dims.begin(), dims.end()));
  };
  const Tolerance tolerance{.relative = 1e-12, .absolute = 1e-12};
  const Tensor dx =
      Evaluate(ops::DepthwiseConv2dNativeBackpropInput(s_, sizes(images_), Feed(filter_), Feed(dy),
                                                       strides_, padding_, Dilated()),
               {sizes_value(images_), filter_, dy}, s_);
  const Tensor want_dx =
      Evaluate(ops::DepthwiseConv2dNativeBackpropInput(s_, sizes(images_), Feed(spread_), Feed(dy),
                                                       strides_, padding_),
               {sizes_value(images_), spread_, dy}, s_);
  EXPECT_EQ(Difference(want_dx, dx, tolerance), "");
  const Tensor dw =
      Evaluate(ops::DepthwiseConv2dNativeBackpropFilter(s_, Feed(images_), sizes(filter_), Feed(dy),
                                                        strides_, padding_, Dilated()),
               {images_, sizes_value(filter_), dy}, s_);
  const Tensor of_all =
      Evaluate(ops::DepthwiseConv2dNativeBackpropFilter(s_, Feed(images_), sizes(spread_), Feed(dy),
                                                        strides_, padding_),
               {images_, sizes_value(spread_), dy}, s_);
  // Compares only the taps, because the gradients at the zeros between them are not zero.
  Tensor ones = *Tensor::Allocate(DT_DOUBLE, filter_.shape());
  for (double& v : ones.flat<double>()) v = 1;
  const Tensor is_tap = Spread(ones, 2, 3);
  Tensor taps = Spread(dw, 2, 3);
  for (int64_t i = 0; i < of_all.num_elements(); ++i) {
    if (is_tap.flat<double>()[i] == 0) of_all.flat<double>()[i] = 0;
  }
  EXPECT_EQ(Difference(of_all, taps, tolerance), "");
}

INSTANTIATE_TEST_SUITE_P(Paddings, DilatedDepthwise, ::testing::Values("SAME", "VALID"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mirrorflow
