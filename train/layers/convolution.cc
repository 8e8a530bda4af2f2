// SPDX-License-Identifier: Apache-2.0
#include "train/layers/convolution.h"

#include <optional>

#include "ops/conv2d.h"
#include "ops/reshape.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {

Output Conv1D(const Scope& scope, Output x, int64_t filters, int64_t kernel_size,
              const Activation& activation, const Conv1DOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "filters", filters) ||
      !CheckSize(s, options.name, "kernel_size", kernel_size)) {
    return Output();
  }
  const std::optional<int64_t> in = GroupDepth(s, x, 3, options.groups, options.name);
  if (!in) return Output();
  const Variable kernel =
      CreateVariable(s, "kernel", {kernel_size, *in, filters}, options.kernel_initializer);
  // An image of height 1.
  ops::Conv2DOptions conv{.dilations = {1, 1, options.dilation_rate, 1}};
  const bool causal = options.padding == "CAUSAL";
  if (causal) {
    conv.explicit_paddings = {0, 0, 0, 0, options.dilation_rate * (kernel_size - 1), 0, 0, 0};
  }
  const int64_t strides[] = {1, 1, options.strides, 1};
  const Output image = ops::ExpandDims(s, x, 1);
  const Output product = ops::Conv2D(s, image, ops::ExpandDims(s, kernel.value, 0), strides,
                                     causal ? "EXPLICIT" : options.padding, conv);
  const Output y =
      AddBias(s, UnlessEmpty(s, image, product, {1, kernel_size}, {1, options.dilation_rate}),
              filters, options.use_bias, options.bias_initializer, nullptr);
  return activation(s, ops::Squeeze(s, y, {.axis = {1}}));
}

Output Conv2D(const Scope& scope, Output x, int64_t filters, Size2D kernel_size,
              const Activation& activation, const Conv2DOptions& options) {
  const Scope s = scope.SubScope(options.name);
  if (!s.ok() || !CheckSize(s, options.name, "filters", filters) ||
      !CheckSize(s, options.name, "kernel_size", kernel_size.height) ||
      !CheckSize(s, options.name, "kernel_size", kernel_size.width)) {
    return Output();
  }
  const std::optional<int64_t> in = GroupDepth(s, x, 4, options.groups, options.name);
  if (!in) return Output();
  const Variable kernel =
      CreateVariable(s, "kernel", {kernel_size.height, kernel_size.width, *in, filters},
                     options.kernel_initializer);
  const Output y = ops::Conv2D(s, x, kernel.value, OfImages(options.strides), options.padding,
                               {.dilations = OfImages(options.dilation_rate)});
  return AddBias(s, UnlessEmpty(s, x, y, kernel_size, options.dilation_rate), filters,
                 options.use_bias, options.bias_initializer, activation);
}

}  // namespace layers
}  // namespace mirrorflow
