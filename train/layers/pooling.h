// SPDX-License-Identifier: Apache-2.0
//
// Pooling layers: replace the elements of each channel, in a window or in a whole example, by their
// maximum or mean. Sequences are [batch, n, channels], images [batch, height, width, channels] and
// volumes [batch, depth, height, width, channels].
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

// MaxPooling1D, …: the maximum of each channel in a window. Padding does not affect the maximum.
// AveragePooling1D, …: the mean of each channel in a window. Padding does not count.
// Shapes:   the batch and the channels remain; every other dimension of size n becomes ceil((n -
//           size + 1) / stride) with padding VALID, and ceil(n / stride) with SAME, where `size` is
//           the size of the window along it.
// Errors:   InvalidArgument if x has a different rank, for any other padding, or if a dimension of
//           a volume other than the batch is unknown. With padding VALID, also if the window is
//           larger than a known dimension of x.
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
  bool keepdims = false;  // whether to keep the pooled dimensions, with size 1
};

// GlobalMaxPooling1D, …: the maximum of each channel over a whole example.
// GlobalAveragePooling1D, …: the mean of each channel over a whole example.
// Shapes:   [batch, …, channels] -> [batch, channels], or [batch, 1, …, channels] with keepdims.
// Errors:   InvalidArgument if x has a different rank.
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
