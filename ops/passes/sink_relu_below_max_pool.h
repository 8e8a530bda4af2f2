// SPDX-License-Identifier: Apache-2.0
//
// SinkReluBelowMaxPool: applies Relu to the output of a max pool instead of its input.
//   MaxPool(Relu(x)) = Relu(MaxPool(x))
//   ReluGrad(MaxPoolGrad(Relu(x), MaxPool(Relu(x)), dy), Relu(x))
//       = MaxPoolGrad(x, MaxPool(x), ReluGrad(dy, Relu(MaxPool(x))))
// Relu is monotone: if the largest element of a window is above 0, it is the same pixel before and
// after Relu; no gradient flows from any other window. The results are the same, including NaN,
// with one exception: in a window without gradient, a different pixel may receive the -0 (or NaN,
// if dy is infinite) that results from dy * 0. Relu and its gradient then process only the output's
// pixels, usually a quarter as many.
#ifndef MIRRORFLOW_OPS_PASSES_SINK_RELU_BELOW_MAX_POOL_H_
#define MIRRORFLOW_OPS_PASSES_SINK_RELU_BELOW_MAX_POOL_H_

#include "framework/compiler/pass.h"

namespace mirrorflow {

class SinkReluBelowMaxPool final : public Pass {
 public:
  absl::string_view name() const override { return "sink_relu_below_max_pool"; }
  Facts needs() const override { return kShapesKnown; }
  bool optional() const override { return true; }
  absl::StatusOr<bool> Run(Compilation& c) override;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_PASSES_SINK_RELU_BELOW_MAX_POOL_H_
