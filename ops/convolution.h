// SPDX-License-Identifier: Apache-2.0
//
// The sizes of a convolution, for kernels.
#ifndef MIRRORFLOW_OPS_CONVOLUTION_H_
#define MIRRORFLOW_OPS_CONVOLUTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/core/shape.h"
#include "framework/graph/graph.h"
#include "ops/window.h"

namespace mirrorflow {

// Images [batch, h.in, w.in, in_channels], filter [h.size, w.size, in_channels, out_channels],
// output [batch, h.out, w.out, out_channels]; with `nchw`, channels of images and output come
// before height and width. With several groups, the filter has the input channels of one group,
// [h.size, w.size, in_channels / groups, out_channels], and output channels are ordered by group.
struct ConvolutionGeometry {
  int64_t batch;
  int64_t in_channels;
  int64_t out_channels;
  Window h;
  Window w;
  bool nchw = false;
  int64_t groups = 1;
  bool bias = false;  // input 2 [out_channels] is added to every pixel of the output
};

// Reads the geometry of a Conv2D or of one of its gradient ops. The shapes are those of the values
// that act as images, filter and output.
absl::StatusOr<ConvolutionGeometry> ConvolutionOf(const Node& node, const Shape& images,
                                                  const Shape& filter, const Shape& output);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONVOLUTION_H_
