// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TRAIN_LAYERS_UP_SAMPLING_H_
#define MIRRORFLOW_TRAIN_LAYERS_UP_SAMPLING_H_

#include <cstdint>
#include <string>

#include "framework/graph/scope.h"
#include "train/layers/sizes.h"

namespace mirrorflow {
namespace layers {

// UpSampling1D: repeats each element of a sequence `size` times.
// Shapes:   [batch, n, channels] -> [batch, n * size, channels]; n and channels must be known.
Output UpSampling1D(const Scope& scope, Output x, int64_t size = 2);

struct UpSampling2DOptions {
  std::string interpolation = "nearest";  // repeats pixels; or "bilinear"
};

// UpSampling2D: enlarges images by whole factors. Bilinear interpolation aligns the centers of
//               pixels; beyond the outermost centers, it repeats the border.
// Shapes:   [batch, h, w, channels] -> [batch, h * height, w * width, channels]; all but the batch
//           must be known.
Output UpSampling2D(const Scope& scope, Output x, Size2D size = 2,
                    const UpSampling2DOptions& options = {});

}  // namespace layers
}  // namespace mirrorflow

#endif  // MIRRORFLOW_TRAIN_LAYERS_UP_SAMPLING_H_
