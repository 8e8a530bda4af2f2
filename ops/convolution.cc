// SPDX-License-Identifier: Apache-2.0
#include "ops/convolution.h"

#include <algorithm>

#include "framework/core/status.h"
#include "ops/fused_ops.h"

namespace mirrorflow {
namespace {

int64_t GroupsOf(int64_t channels, int64_t of_group) {
  return of_group == 0 ? 1 : std::max<int64_t>(1, channels / of_group);
}

}  // namespace

absl::StatusOr<ConvolutionGeometry> ConvolutionOf(const Node& node, const Shape& images,
                                                  const Shape& filter, const Shape& output) {
  MF_ASSIGN_OR_RETURN(const WindowAttrs attrs, ReadWindowAttrs(node));
  return ConvolutionGeometry{.batch = images.dim(0),
                             .in_channels = images.dim(attrs.layout.channels),
                             .out_channels = output.dim(attrs.layout.channels),
                             .h = WindowOf(attrs, 0, images, output, filter.dim(0)),
                             .w = WindowOf(attrs, 1, images, output, filter.dim(1)),
                             .nchw = attrs.layout.nchw(),
                             .groups = GroupsOf(images.dim(attrs.layout.channels), filter.dim(2)),
                             .bias = node.input_index(ops::kFusedBias) >= 0};
}

}  // namespace mirrorflow
