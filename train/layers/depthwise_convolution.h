// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of each channel with its own filters. Images are [batch, height, width, channels].
#ifndef MIRRORFLOW_TRAIN_LAYERS_DEPTHWISE_CONVOLUTION_H_
#define MIRRORFLOW_TRAIN_LAYERS_DEPTHWISE_CONVOLUTION_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/layers/activation.h"
#include "train/layers/sizes.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

struct DepthwiseConv2DOptions {
  Size2D strides = 1;
  std::string padding = "VALID";  // or "SAME"
  int64_t depth_multiplier = 1;   // the filters of each channel
  Size2D dilation_rate = 1;
  bool use_bias = true;
  Initializer depthwise_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "depthwise_conv2d";
};

// DepthwiseConv2D: y = activation(x * kernel + bias), where each channel of x is convolved with
//                  `depth_multiplier` filters.
// Shapes:   x [batch, h, w, in] -> y [batch, h', w', in * depth_multiplier]; variables kernel
//           [height, width, in, depth_multiplier], bias [in * depth_multiplier].
// Errors:   InvalidArgument if `in` is not known, and if the kernel, with its dilation, is
//           larger than a known size of x with padding VALID.
Output DepthwiseConv2D(const Scope& scope, Output x, Size2D kernel_size,
                       const Activation& activation = nullptr,
                       const DepthwiseConv2DOptions& options = {});

struct SeparableConv2DOptions {
  Size2D strides = 1;
  std::string padding = "VALID";  // or "SAME"
  Size2D dilation_rate = 1;
  int64_t depth_multiplier = 1;
  bool use_bias = true;
  Initializer depthwise_initializer = initializers::GlorotUniform();
  Initializer pointwise_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "separable_conv2d";
};

// SeparableConv2D: a depthwise convolution, then a convolution of each pixel:
//                  y = activation((x * depthwise_kernel) * pointwise_kernel + bias).
// Shapes:   x [batch, h, w, in] -> y [batch, h', w', filters]; variables depthwise_kernel [height,
//           width, in, depth_multiplier], pointwise_kernel [1, 1, in * depth_multiplier, filters],
//           bias [filters].
// Errors:   InvalidArgument if `in` is not known, and if the kernel, with its dilation, is
//           larger than a known size of x with padding VALID.
// Source:   Chollet, "Xception", 2017.
Output SeparableConv2D(const Scope& scope, Output x, int64_t filters, Size2D kernel_size,
                       const Activation& activation = nullptr,
                       const SeparableConv2DOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_DEPTHWISE_CONVOLUTION_H_
