// SPDX-License-Identifier: Apache-2.0
//
// ReluBehindPool: the largest of what Relu lets through is what Relu lets through of the largest.
//   MaxPool(Relu(x)) = Relu(MaxPool(x))
//   ReluGrad(MaxPoolGrad(Relu(x), MaxPool(Relu(x)), dy), Relu(x))
//       = MaxPoolGrad(x, MaxPool(x), ReluGrad(dy, Relu(MaxPool(x))))
// Relu is monotone: where the largest of a window is above 0, it is the same pixel before and
// behind Relu; from any other window no gradient comes through. The numbers are the same, NaN
// included; of a window without gradient another pixel may have the -0 (or from an infinite dy the
// NaN) that dy * 0 is. Relu and its gradient then touch the pixels of the output, mostly a quarter.
#ifndef MIRRORFLOW_OPS_PASSES_RELU_BEHIND_POOL_H_
#define MIRRORFLOW_OPS_PASSES_RELU_BEHIND_POOL_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class ReluBehindPool final : public Pass {
 public:
  absl::string_view name() const override { return "relu_behind_pool"; }
  Facts needs() const override { return kShapesKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_RELU_BEHIND_POOL_H_
