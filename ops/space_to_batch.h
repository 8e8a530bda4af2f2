// SPDX-License-Identifier: Apache-2.0
//
// Blocks of space moved to the batch and back: how TensorFlow spells a dilated convolution.
#ifndef MIRRORFLOW_OPS_SPACE_TO_BATCH_H_
#define MIRRORFLOW_OPS_SPACE_TO_BATCH_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterSpaceToBatch(OpRegistry& ops);

namespace ops {

// SpaceToBatchND: the M dimensions behind the first are padded with zeros and cut into blocks; the
// elements at one place of all blocks make an image of their own.
// Shapes:   input [N,S…,rest], block_shape [M], paddings [M,2] -> [N·∏block, (S+paddings)/block…,
//           rest]; image b·N+n has what is at place b of the blocks of image n. Both operands are
//           constants when a plan is made.
// Errors:   InvalidArgument if the blocks do not fill the padded dimensions.
// Gradient: BatchToSpaceND.
Output SpaceToBatchND(const Scope& scope, Output input, Output block_shape, Output paddings);

// BatchToSpaceND: the reverse, with `crops` [M,2] cut off at the ends. Gradient: SpaceToBatchND.
Output BatchToSpaceND(const Scope& scope, Output input, Output block_shape, Output crops);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_SPACE_TO_BATCH_H_
