// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOOP_BOUND_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOOP_BOUND_H_

#include <optional>

#include "framework/compiler/compilation.h"

namespace mirrorflow {

// The maximum number of iterations of the loop. It is known if the condition compares, alone or
// under LogicalAnd, a value to which the body adds a constant with a value that has an upper bound;
// otherwise nullopt. The values of the bodies must have been inferred.
std::optional<int64_t> LoopBound(const Compilation& c, const Node& loop);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOOP_BOUND_H_
