// SPDX-License-Identifier: Apache-2.0
//
// The sizes of a convolution, as kernels need them.
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
// before height and width. Of several groups, the filter has the channels of one: [h.size, w.size,
// in_channels / groups, out_channels], and output channels come group by group.
struct ConvolutionGeometry {
  int64_t batch;
  int64_t in_channels;
  int64_t out_channels;
  Window h;
  Window w;
  bool nchw = false;
  int64_t groups = 1;
  bool bias = false;  // input 2 [out_channels] is added to every pixel of a convolution
};

// Of a Conv2D or one of its gradients, from the shapes of what are images, filter and output to it.
absl::StatusOr<ConvolutionGeometry> ConvolutionOf(const Node& node, const Shape& images,
                                                  const Shape& filter, const Shape& output);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONVOLUTION_H_
