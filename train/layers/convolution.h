// SPDX-License-Identifier: Apache-2.0
//
// Convolutions. Sequences are [batch, n, channels], images [batch, height, width, channels].
#ifndef MIRRORFLOW_TRAIN_LAYERS_CONVOLUTION_H_
#define MIRRORFLOW_TRAIN_LAYERS_CONVOLUTION_H_

#include <cstdint>
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

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_CONVOLUTION_H_
