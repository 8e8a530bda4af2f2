// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_MERGE_LOOPS_H_
#define MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_MERGE_LOOPS_H_

#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Puts a loop that keeps a history for a gradient (ops/control_flow/loop_gradient.h) in the place
// of the loop that does the same without. True if there was one.
bool MergeLoops(Compilation& c);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_CONTROL_FLOW_PASSES_MERGE_LOOPS_H_
