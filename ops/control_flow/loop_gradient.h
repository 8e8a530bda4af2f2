// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_LOOP_GRADIENT_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_LOOP_GRADIENT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/op_def.h"

namespace mirrorflow {

// Attributes of a loop that does what another one does and keeps a history besides: the functions
// of that one, whose inputs are its first. MergeLoops puts it in its place.
inline constexpr char kInsteadOfCond[] = "_instead_of_cond";
inline constexpr char kInsteadOfBody[] = "_instead_of_body";

// The gradient of While. As TensorFlow's: the loop runs with its histories, lists of the values
// that the gradient of the body needs, to which each iteration pushes; a loop of as many iterations
// pops them, so it goes backward. Nothing is computed twice but what is inside a loop in the body:
// that one runs again, so that no history is a list of lists.
// Unimplemented if the body, or a function that it runs, writes a variable; and if what would run
// again draws random numbers, which would be others.
absl::StatusOr<std::vector<Output>> LoopGradient(const GradContext& c);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_LOOP_GRADIENT_H_
