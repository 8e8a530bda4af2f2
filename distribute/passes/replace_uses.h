// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_PASSES_REPLACE_USES_H_
#define MIRRORFLOW_DISTRIBUTE_PASSES_REPLACE_USES_H_

#include "framework/compiler/compilation.h"

namespace mirrorflow {

// Replaces output i of `node` by `values[i]` in all uses. Its users still wait for its control
// inputs. The node stays in the graph, unused.
void ReplaceAllUses(Compilation& c, Node* node, absl::Span<const Output> values);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_PASSES_REPLACE_USES_H_
