// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_GRADIENTS_H_
#define MIRRORFLOW_OPS_GRADIENTS_H_

#include <vector>

#include "framework/graph/gradients.h"
#include "ops/registry.h"

namespace mirrorflow {

// Adds the nodes that compute the gradient of the sum of all elements of `ys` with respect to each
// of `xs`, like tf.gradients. Returns one output per x, with the shape of x; it is invalid if `ys`
// do not depend on that x. framework/graph/gradients.h describes the options and errors.
// Optimizer::Minimize computes the gradients that it needs itself.
//
//   MF_ASSIGN_OR_RETURN(std::vector<Output> dx, Gradients(scope, {loss}, {x}));
inline absl::StatusOr<std::vector<Output>> Gradients(const Scope& scope,
                                                     absl::Span<const Output> ys,
                                                     absl::Span<const Output> xs,
                                                     const GradientOptions& options = {}) {
  return Gradients(AllOps(), scope, ys, xs, options);
}

// The gradient function for an op whose output does not depend on its floating-point operands, or
// is treated as a constant: no operand has a gradient. (Differentiating through an op *without* a
// gradient function is an error.)
inline absl::StatusOr<std::vector<Output>> ZeroGradients(const GradContext& c) {
  return std::vector<Output>(c.op.num_inputs());
}

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_GRADIENTS_H_
