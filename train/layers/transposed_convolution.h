// SPDX-License-Identifier: Apache-2.0
//
// Transposed convolutions, which enlarge sequences and images.
#ifndef MIRRORFLOW_TRAIN_LAYERS_TRANSPOSED_CONVOLUTION_H_
#define MIRRORFLOW_TRAIN_LAYERS_TRANSPOSED_CONVOLUTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "framework/graph/scope.h"
#include "train/layers/activation.h"
#include "train/layers/sizes.h"
#include "train/variable.h"

namespace mirrorflow {
namespace layers {

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

#endif  // MIRRORFLOW_TRAIN_LAYERS_TRANSPOSED_CONVOLUTION_H_
