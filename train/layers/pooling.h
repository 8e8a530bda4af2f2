// SPDX-License-Identifier: Apache-2.0
//
// Pooling of sequences [batch, n, channels], images [batch, height, width, channels] and volumes
// [batch, depth, height, width, channels]: within windows, and over whole examples.
#ifndef MIRRORFLOW_TRAIN_LAYERS_POOLING_H_
#define MIRRORFLOW_TRAIN_LAYERS_POOLING_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/layers/sizes.h"

namespace mirrorflow {
namespace layers {

struct Pooling1DOptions {
  int64_t strides = 0;            // 0: the pool size
  std::string padding = "VALID";  // or "SAME"
};
struct Pooling2DOptions {
  Size2D strides = 0;
  std::string padding = "VALID";
};
struct Pooling3DOptions {
  Size3D strides = 0;
  std::string padding = "VALID";
};
using MaxPooling2DOptions = Pooling2DOptions;

// MaxPooling1D, …: the maximum of each channel in a window. Padding is never the maximum.
// AveragePooling1D, …: the mean, in which padding is not counted.
// Shapes:   along each dimension of a window, n' = ceil((n - size + 1) / stride), with SAME
//           ceil(n / stride).
// Errors:   InvalidArgument if a volume's depth, height, width or channels are not known, and if
//           the window is larger than a known size of x with padding VALID.
Output MaxPooling1D(const Scope& scope, Output x, int64_t pool_size = 2,
                    const Pooling1DOptions& options = {});
Output MaxPooling2D(const Scope& scope, Output x, Size2D pool_size = 2,
                    const Pooling2DOptions& options = {});
Output MaxPooling3D(const Scope& scope, Output x, Size3D pool_size = 2,
                    const Pooling3DOptions& options = {});
Output AveragePooling1D(const Scope& scope, Output x, int64_t pool_size = 2,
                        const Pooling1DOptions& options = {});
Output AveragePooling2D(const Scope& scope, Output x, Size2D pool_size = 2,
                        const Pooling2DOptions& options = {});
Output AveragePooling3D(const Scope& scope, Output x, Size3D pool_size = 2,
                        const Pooling3DOptions& options = {});

struct GlobalPoolingOptions {
  bool keepdims = false;  // keep the pooled dimensions, with size 1
};

// GlobalMaxPooling1D, …: the maximum of each channel of an example. GlobalAveragePooling1D, …: the
// mean.
// Shapes:   [batch, …, channels] -> [batch, channels].
// Errors:   InvalidArgument if x has another rank.
Output GlobalMaxPooling1D(const Scope& scope, Output x, const GlobalPoolingOptions& options = {});
Output GlobalMaxPooling2D(const Scope& scope, Output x, const GlobalPoolingOptions& options = {});
Output GlobalMaxPooling3D(const Scope& scope, Output x, const GlobalPoolingOptions& options = {});
Output GlobalAveragePooling1D(const Scope& scope, Output x,
                              const GlobalPoolingOptions& options = {});
Output GlobalAveragePooling2D(const Scope& scope, Output x,
                              const GlobalPoolingOptions& options = {});
Output GlobalAveragePooling3D(const Scope& scope, Output x,
                              const GlobalPoolingOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_POOLING_H_
