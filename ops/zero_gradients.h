// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_ZERO_GRADIENTS_H_
#define MIRRORFLOW_OPS_ZERO_GRADIENTS_H_

#include <vector>

#include "framework/graph/graph.h"

namespace mirrorflow {

// Gradient function of an op whose output does not change with its floating-point operands, or is
// to be treated as constant: no operand gets a gradient. (Differentiating through an op *without* a
// gradient function is an error.)
inline absl::StatusOr<std::vector<Output>> ZeroGradients(const GradContext& c) {
  return std::vector<Output>(c.op.num_inputs());
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_ZERO_GRADIENTS_H_
