// SPDX-License-Identifier: Apache-2.0
#include "train/layers/depthwise_convolution.h"

#include <optional>

#include "ops/conv2d.h"
#include "ops/depthwise_conv2d.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {
namespace {

bool CheckSizes(const Scope& s, absl::string_view layer, Size2D kernel_size,
                int64_t depth_multiplier) {
  return CheckSize(s, layer, "kernel_size", kernel_size.height) &&
         CheckSize(s, layer, "kernel_size", kernel_size.width) &&
         CheckSize(s, layer, "depth_multiplier", depth_multiplier);
}

}  // namespace

Output DepthwiseConv2D(const Scope& scope, Output x, Size2D kernel_size,
                       const Activation& activation, const DepthwiseConv2DOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSizes(s, options.name, kernel_size, options.depth_multiplier)) {
    return Output();
  }
  const std::optional<int64_t> in = GroupDepth(s, x, 4, 1, options.name);
  if (!in) return Output();
  const Variable kernel = CreateVariable(
      s, "kernel", {kernel_size.height, kernel_size.width, *in, options.depth_multiplier},
      options.depthwise_initializer);
  const Output y =
      ops::DepthwiseConv2dNative(s, x, kernel.value, OfImages(options.strides), options.padding,
                                 {.dilations = OfImages(options.dilation_rate)});
  return AddBias(s, UnlessEmpty(s, x, y, kernel_size, options.dilation_rate),
                 *in * options.depth_multiplier, options.use_bias, options.bias_initializer,
                 activation);
}

Output SeparableConv2D(const Scope& scope, Output x, int64_t filters, Size2D kernel_size,
                       const Activation& activation, const SeparableConv2DOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "filters", filters) ||
      !CheckSizes(s, options.name, kernel_size, options.depth_multiplier)) {
    return Output();
  }
  const std::optional<int64_t> in = GroupDepth(s, x, 4, 1, options.name);
  if (!in) return Output();
  const Variable depthwise = CreateVariable(
      s, "depthwise_kernel", {kernel_size.height, kernel_size.width, *in, options.depth_multiplier},
      options.depthwise_initializer);
  const Variable pointwise =
      CreateVariable(s, "pointwise_kernel", {1, 1, *in * options.depth_multiplier, filters},
                     options.pointwise_initializer);
  const Output each = UnlessEmpty(
      s, x,
      ops::DepthwiseConv2dNative(s, x, depthwise.value, OfImages(options.strides), options.padding,
                                 {.dilations = OfImages(options.dilation_rate)}),
      kernel_size, options.dilation_rate);
  return AddBias(s, ops::Conv2D(s, each, pointwise.value, OfImages(1), "VALID"), filters,
                 options.use_bias, options.bias_initializer, activation);
}

}  // namespace layers
}  // namespace mirrorflow
