// SPDX-License-Identifier: Apache-2.0
//
// DirectDepthwise computes depthwise convolutions of float images [batch, height, width, channels]
// that have one filter per channel. It works on vectors of channels: a tile of neighbouring output
// pixels stays in registers, and each input pixel is loaded once per tile and filter row. The
// output row gets the epilogue while it is in the L1 cache.
//
// The bits of an output pixel do not depend on other images. A call allocates no memory.
#ifndef MIRRORFLOW_KERNELS_CPU_DIRECT_DEPTHWISE_H_
#define MIRRORFLOW_KERNELS_CPU_DIRECT_DEPTHWISE_H_

#include <cstdint>

#include "kernels/cpu/epilogue.h"
#include "ops/window.h"

namespace mirrorflow {

struct DirectDepthwise {
  int64_t batch;
  int64_t channels;
  Window h;
  Window w;
  Epilogue epilogue;

  // Returns whether an image has enough channels to fill a vector.
  static bool Supports(int64_t channels);

  // Convolves `images` with `filter` [h.size, w.size, channels], adds `bias` [channels] unless it
  // is null, and runs the epilogue. `addend` has the shape of `out`, and is null unless the
  // epilogue adds.
  void Run(const float* images, const float* filter, const float* bias, const float* addend,
           float* out) const;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CPU_DIRECT_DEPTHWISE_H_
