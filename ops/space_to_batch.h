// SPDX-License-Identifier: Apache-2.0
//
// Ops that move blocks of the spatial dimensions into the batch dimension and back. TensorFlow uses
// them to express dilated convolutions.
#ifndef MIRRORFLOW_OPS_SPACE_TO_BATCH_H_
#define MIRRORFLOW_OPS_SPACE_TO_BATCH_H_

#include "framework/graph/scope.h"

namespace mirrorflow::ops {

// SpaceToBatchND: pads the M dimensions after the first with zeros and cuts them into blocks. The
// elements at one position of all blocks form one output image.
// Shapes:   input [N,S…,rest], block_shape [M], paddings [M,2] -> [N·∏block, (S+paddings)/block…,
//           rest]; image b·N+n holds the elements at position b of the blocks of image n.
//           block_shape and paddings must be known when the step is compiled.
// Errors:   InvalidArgument if the padded dimensions are not multiples of the block dimensions.
// Gradient: BatchToSpaceND.
Output SpaceToBatchND(const Scope& scope, Output input, Output block_shape, Output paddings);

// BatchToSpaceND: the inverse of SpaceToBatchND; removes `crops` [M,2] elements from the ends of
// each dimension. block_shape and crops must be known when the step is compiled.
// Errors:   InvalidArgument if the batch is not a multiple of the positions in a block, or if the
//           crops exceed a dimension.
// Gradient: SpaceToBatchND.
Output BatchToSpaceND(const Scope& scope, Output input, Output block_shape, Output crops);

}  // namespace mirrorflow::ops

#endif  // MIRRORFLOW_OPS_SPACE_TO_BATCH_H_
