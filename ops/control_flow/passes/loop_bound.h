// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOOP_BOUND_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOOP_BOUND_H_

#include <optional>

#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Returns the maximum number of iterations of the loop, or nullopt if the number is unknown. It is
// known if the condition, alone or under LogicalAnd, compares a counter that the body increments by
// a constant with a value that has an upper bound. The values in the loop's bodies must already
// have been inferred.
std::optional<int64_t> LoopBound(const Compilation& c, const Node& loop);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOOP_BOUND_H_
