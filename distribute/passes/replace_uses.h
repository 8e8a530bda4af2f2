// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_REPLACE_USES_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_REPLACE_USES_H_

#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Replaces output i of `node` with `values[i]` in all uses. The users still wait for the control
// inputs of `node`, which stays in the graph, unused.
void ReplaceAllUses(Compilation& c, Node* node, absl::Span<const Output> values);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_REPLACE_USES_H_
