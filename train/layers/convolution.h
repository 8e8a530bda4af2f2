// SPDX-License-Identifier: Apache-2.0
//
// Convolution layers: ordinary, depthwise, separable and transposed. Sequences are [batch, n,
// channels], images [batch, height, width, channels], volumes [batch, depth, height, width,
// channels].
#ifndef MIRRORFLOW_TRAIN_LAYERS_CONVOLUTION_H_
#define MIRRORFLOW_TRAIN_LAYERS_CONVOLUTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "framework/graph/scope.h"
#include "train/layers/activation.h"
#include "train/layers/sizes.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

struct Conv1DOptions {
  int64_t strides = 1;
  std::string padding = "VALID";  // or "SAME", or "CAUSAL": y[i] depends only on x[0] to x[i]
  int64_t dilation_rate = 1;
  int64_t groups = 1;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "conv1d";
};

// Conv1D: y = activation(x * kernel + bias).
// Shapes:   x [batch, n, in] -> y [batch, n', filters]; variables kernel [kernel_size, in / groups,
//           filters], bias [filters].
// Errors:   InvalidArgument if `in` is not known or not a multiple of `groups`, and if the kernel,
//           with its dilation, is larger than a known size of x with padding VALID.
Output Conv1D(const Scope& scope, Output x, int64_t filters, int64_t kernel_size,
              const Activation& activation = nullptr, const Conv1DOptions& options = {});

struct Conv2DOptions {
  Size2D strides = 1;
  std::string padding = "VALID";  // or "SAME"
  Size2D dilation_rate = 1;
  // Channels of x and of y form this many groups; group i of y is computed from group i of x.
  int64_t groups = 1;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "conv2d";
};

// Conv2D: y = activation(x * kernel + bias). Conv2D(s, x, 8, 3) has a square kernel, Conv2D(s, x,
//         8, {1, 3}) one of height 1 and width 3.
// Shapes:   x [batch, h, w, in] -> y [batch, h', w', filters]; variables kernel [height, width,
//           in / groups, filters], bias [filters].
// Errors:   InvalidArgument if `in` is not known or not a multiple of `groups`, and if the kernel,
//           with its dilation, is larger than a known size of x with padding VALID.
Output Conv2D(const Scope& scope, Output x, int64_t filters, Size2D kernel_size,
              const Activation& activation = nullptr, const Conv2DOptions& options = {});

struct Conv3DOptions {
  Size3D strides = 1;
  std::string padding = "VALID";  // or "SAME"
  Size3D dilation_rate = 1;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "conv3d";
};

// Conv3D: y = activation(x * kernel + bias), as a convolution of images: the slices of depth that a
//         position of the kernel sees are the channels of one image.
// Shapes:   x [batch, d, h, w, in] -> y [batch, d', h', w', filters]; variables kernel [depth,
//           height, width, in, filters], bias [filters].
// Memory:   a copy of x for each slice of the kernel's depth.
// Errors:   InvalidArgument if d, h, w or `in` is not known, and if the kernel, with its
//           dilation, is larger than x with padding VALID.
Output Conv3D(const Scope& scope, Output x, int64_t filters, Size3D kernel_size,
              const Activation& activation = nullptr, const Conv3DOptions& options = {});

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

struct Conv1DTransposeOptions {
  int64_t strides = 1;
  std::string padding = "VALID";  // or "SAME"
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "conv1d_transpose";
};

// Conv1DTranspose: Conv2DTranspose in one dimension.
// Shapes:   x [batch, n, in] -> y [batch, n', filters]; variables kernel [kernel_size, filters,
//           in], bias [filters].
Output Conv1DTranspose(const Scope& scope, Output x, int64_t filters, int64_t kernel_size,
                       const Activation& activation = nullptr,
                       const Conv1DTransposeOptions& options = {});

struct Conv2DTransposeOptions {
  Size2D strides = 1;
  std::string padding = "VALID";  // or "SAME"
  // Chooses one of the sizes that a convolution maps to the size of x; less than the stride.
  std::optional<Size2D> output_padding = {};
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "conv2d_transpose";
};

// Conv2DTranspose: y = activation(xᵀ + bias), where xᵀ is the input gradient of a convolution with
//                  the kernel whose output gradient is x.
// Shapes:   x [batch, h, w, in] -> y [batch, h', w', filters]; variables kernel [height, width,
//           filters, in], bias [filters]. h' is
//             VALID: (h - 1) * stride + size + padding, by default max(size, stride) - size
//             SAME:  h * stride, or with padding (h - 1) * stride + size mod 2 + padding
//           where `size` is the kernel's height and `padding` the output padding.
// Errors:   InvalidArgument if h, w or `in` is not known.
Output Conv2DTranspose(const Scope& scope, Output x, int64_t filters, Size2D kernel_size,
                       const Activation& activation = nullptr,
                       const Conv2DTransposeOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_CONVOLUTION_H_
