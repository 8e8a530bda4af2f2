// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_MERGE_LOOPS_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_MERGE_LOOPS_H_

#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Replaces each loop with the equivalent loop that also keeps histories for a gradient, if such a
// loop exists (ops/control_flow/loop_gradient.h). Returns whether it replaced any.
bool MergeLoops(Compilation& c);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_MERGE_LOOPS_H_
