// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_LOOP_GRADIENT_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_LOOP_GRADIENT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "framework/graph/op_def.h"

namespace mirrorflow {

// Attributes of a loop that computes the same values as an original loop and also keeps histories.
// They name the original loop's functions. The original loop's inputs are the new loop's first
// inputs. MergeLoops replaces the original loop with the new one.
inline constexpr char kInsteadOfCond[] = "_instead_of_cond";
inline constexpr char kInsteadOfBody[] = "_instead_of_body";

// Builds the gradient of While as TensorFlow does. The forward loop keeps histories: in each
// iteration, it appends the values that the body's gradient needs to lists. A second loop, with the
// same number of iterations, pops these values and therefore runs backward. Only the inner loops of
// the body are recomputed, so that no history is a list of lists. Returns Unimplemented if the
// body, or a function that it runs, writes a variable, or if a recomputed loop draws random
// numbers, because the numbers would differ.
absl::StatusOr<std::vector<Output>> LoopGradient(const GradContext& c);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_LOOP_GRADIENT_H_
