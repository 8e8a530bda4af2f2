// SPDX-License-Identifier: Apache-2.0
//
// Convolution layers: ordinary, depthwise, separable and transposed. Sequences are [batch, n,
// channels], images [batch, height, width, channels] and volumes [batch, depth, height, width,
// channels]. In the formulas, `*` is a convolution.
//
// A layer maps a dimension of size n, such as the height, to the size n'. With padding "SAME",
// zeros are added at both ends so that n' = ceil(n / stride). With padding "VALID", nothing is
// added, and n' = ceil((n - (size - 1) * dilation) / stride), where `size` is the kernel's size
// along that dimension. Transposed convolutions do the reverse (see Conv2DTranspose).
//
// Errors: InvalidArgument if x has a different rank than the layer's Shapes, for any other padding,
// and in the cases that each layer lists.
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
  // "VALID", "SAME" or "CAUSAL", which adds zeros only at the start, so that y[i] depends only on
  // x[0] to x[i * strides].
  std::string padding = "VALID";
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
// Errors:   InvalidArgument if `in` is unknown, or if `in` or `filters` is not a multiple of
//           `groups`. With padding VALID, also if the dilated kernel is larger than a known n.
Output Conv1D(const Scope& scope, Output x, int64_t filters, int64_t kernel_size,
              const Activation& activation = nullptr, const Conv1DOptions& options = {});

struct Conv2DOptions {
  Size2D strides = 1;
  std::string padding = "VALID";  // or "SAME"
  Size2D dilation_rate = 1;
  // How many groups the channels of x and y are split into. Group i of y depends only on group i of
  // x.
  int64_t groups = 1;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "conv2d";
};

// Conv2D: y = activation(x * kernel + bias). Conv2D(s, x, 8, 3) has a 3 × 3 kernel; Conv2D(s, x, 8,
//         {1, 3}) has a kernel of height 1 and width 3.
// Shapes:   x [batch, h, w, in] -> y [batch, h', w', filters]; variables kernel [height, width,
//           in / groups, filters], bias [filters].
// Errors:   InvalidArgument if `in` is unknown, or if `in` or `filters` is not a multiple of
//           `groups`. With padding VALID, also if the dilated kernel is larger than a known h or w.
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

// Conv3D: y = activation(x * kernel + bias). Runs as a 2-D convolution of images whose channels are
//         those of all depth slices that the kernel covers at one position.
// Shapes:   x [batch, d, h, w, in] -> y [batch, d', h', w', filters]; variables kernel [depth,
//           height, width, in, filters], bias [filters].
// Memory:   a copy of x for each depth slice of the kernel.
// Errors:   InvalidArgument if d, h, w or `in` is unknown. With padding VALID, also if the dilated
//           kernel is larger than x.
Output Conv3D(const Scope& scope, Output x, int64_t filters, Size3D kernel_size,
              const Activation& activation = nullptr, const Conv3DOptions& options = {});

struct DepthwiseConv2DOptions {
  Size2D strides = 1;
  std::string padding = "VALID";  // or "SAME"
  int64_t depth_multiplier = 1;   // filters per input channel
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
// Errors:   InvalidArgument if `in` is unknown. With padding VALID, also if the dilated kernel is
//           larger than a known h or w.
Output DepthwiseConv2D(const Scope& scope, Output x, Size2D kernel_size,
                       const Activation& activation = nullptr,
                       const DepthwiseConv2DOptions& options = {});

struct SeparableConv2DOptions {
  Size2D strides = 1;
  std::string padding = "VALID";  // or "SAME"
  Size2D dilation_rate = 1;
  int64_t depth_multiplier = 1;  // filters per input channel of the depthwise convolution
  bool use_bias = true;
  Initializer depthwise_initializer = initializers::GlorotUniform();
  Initializer pointwise_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "separable_conv2d";
};

// SeparableConv2D: a depthwise convolution, then a 1x1 convolution that mixes the channels:
//                  y = activation((x * depthwise_kernel) * pointwise_kernel + bias).
// Shapes:   x [batch, h, w, in] -> y [batch, h', w', filters]; variables depthwise_kernel [height,
//           width, in, depth_multiplier], pointwise_kernel [1, 1, in * depth_multiplier, filters],
//           bias [filters].
// Errors:   InvalidArgument if `in` is unknown. With padding VALID, also if the dilated kernel is
//           larger than a known h or w.
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

// Conv1DTranspose: Conv2DTranspose for sequences, without output_padding.
// Shapes:   x [batch, n, in] -> y [batch, n', filters]; variables kernel [kernel_size, filters,
//           in], bias [filters].
// Errors:   InvalidArgument if n or `in` is unknown.
Output Conv1DTranspose(const Scope& scope, Output x, int64_t filters, int64_t kernel_size,
                       const Activation& activation = nullptr,
                       const Conv1DTransposeOptions& options = {});

struct Conv2DTransposeOptions {
  Size2D strides = 1;
  std::string padding = "VALID";  // or "SAME"
  // Selects the size of y, because a Conv2D maps several sizes of y to the size of x: see the
  // formulas below. Must be less than the stride.
  std::optional<Size2D> output_padding = {};
  bool use_bias = true;
  Initializer kernel_initializer = initializers::GlorotUniform();
  Initializer bias_initializer = initializers::Zeros();
  std::string name = "conv2d_transpose";
};

// Conv2DTranspose: y = activation(g + bias). g is what the gradient of a Conv2D with this kernel
//                  returns for the Conv2D's input if the gradient of its result is x. With strides
//                  2 and padding SAME, for example, height and width are doubled.
// Shapes:   x [batch, h, w, in] -> y [batch, h', w', filters]; variables kernel [height, width,
//           filters, in], bias [filters]. h' is
//             VALID: (h - 1) * stride + size + padding; `padding` defaults to max(size, stride) -
//                    size
//             SAME:  (h - 1) * stride + size mod 2 + padding; h * stride by default
//           where `size` is the kernel's height and `padding` is output_padding. The same formulas
//           hold for w'.
// Errors:   InvalidArgument if h, w or `in` is unknown.
Output Conv2DTranspose(const Scope& scope, Output x, int64_t filters, Size2D kernel_size,
                       const Activation& activation = nullptr,
                       const Conv2DTransposeOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_CONVOLUTION_H_
