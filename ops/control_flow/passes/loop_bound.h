// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOOP_BOUND_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOOP_BOUND_H_

#include <optional>

#include "framework/compiler/compilation.h"

namespace mirrorflow {

// How often the loop runs at most: where its condition compares a value that the body adds a
// constant to with a value that has an upper bound, alone or under LogicalAnd. What the bodies'
// values are must have been inferred. Nothing if that is not how it counts.
std::optional<int64_t> LoopBound(const Compilation& c, const Node& loop);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_LOOP_BOUND_H_
