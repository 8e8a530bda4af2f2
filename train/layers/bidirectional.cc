// SPDX-License-Identifier: Apache-2.0
#include "train/layers/bidirectional.h"

#include "ops/binary.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/reverse.h"
#include "train/layers/layer_support.h"

namespace mirrorflow {
namespace layers {
namespace internal {

Output MergeDirections(const Scope& scope, Output forward, Output backward, bool sequences,
                       const BidirectionalOptions& options) {
  if (!scope.ok()) return Output();
  if (sequences) backward = ops::ReverseV2(scope, backward, ops::VectorConst(scope, {1}));
  if (options.merge_mode == "concat") {
    return ops::ConcatV2(scope, {forward, backward}, scope.shape(forward).rank() - 1);
  }
  if (options.merge_mode == "sum") return ops::AddV2(scope, forward, backward);
  if (options.merge_mode == "mul") return ops::Mul(scope, forward, backward);
  if (options.merge_mode == "ave") {
    const Output sum = ops::AddV2(scope, forward, backward);
    return ops::Mul(scope, sum, ops::ScalarConst(scope, sum.dtype(), 0.5));
  }
  return Fail(scope,
              absl::StrCat(options.name, ": merge_mode must be concat, sum, mul or ave, got ",
                           options.merge_mode));
}

}  // namespace internal
}  // namespace layers
}  // namespace mirrorflow
