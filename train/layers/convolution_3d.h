// SPDX-License-Identifier: Apache-2.0
//
// Convolution of volumes, [batch, depth, height, width, channels].
#ifndef MIRRORFLOW_TRAIN_LAYERS_CONVOLUTION_3D_H_
#define MIRRORFLOW_TRAIN_LAYERS_CONVOLUTION_3D_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/layers/activation.h"
#include "train/layers/sizes.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

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

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_CONVOLUTION_3D_H_
