// SPDX-License-Identifier: Apache-2.0
//
// Ops that move blocks of the spatial dimensions to the batch and back. TensorFlow expresses
// dilated convolutions with them.
#ifndef MIRRORFLOW_OPS_SPACE_TO_BATCH_H_
#define MIRRORFLOW_OPS_SPACE_TO_BATCH_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterSpaceToBatch(OpRegistry& ops);

namespace ops {

// SpaceToBatchND: pads the M dimensions after the first with zeros and cuts them into blocks. The
// elements at the same position in all blocks form one image.
// Shapes:   input [N,S…,rest], block_shape [M], paddings [M,2] -> [N·∏block, (S+paddings)/block…,
//           rest]; image b·N+n holds the elements at position b of the blocks of image n.
//           block_shape and paddings are constants when a plan is made.
// Errors:   InvalidArgument if the padded dimensions are not multiples of the blocks.
// Gradient: BatchToSpaceND.
Output SpaceToBatchND(const Scope& scope, Output input, Output block_shape, Output paddings);

// BatchToSpaceND: the inverse, with `crops` [M,2] removed at the ends. Gradient: SpaceToBatchND.
Output BatchToSpaceND(const Scope& scope, Output input, Output block_shape, Output crops);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_SPACE_TO_BATCH_H_
