// SPDX-License-Identifier: Apache-2.0
#include "distribute/passes/replace_uses.h"

#include "ops/identity.h"

namespace mirrorflow {

void ReplaceAllUses(Compilation& c, Node* node, absl::Span<const Output> values) {
  Node* last = values[0].node;
  for (size_t i = 0; i < values.size(); ++i) {
    Output value = values[i];
    // A control input may depend on the value, so the value itself cannot wait for it.
    if (!node->control_inputs().empty()) {
      value = ops::Identity(c.scope().SubScope(node->name()).WithControlInputsOf(*node), value);
      if (!value.valid()) return;
      c.shardings.Set(value, c.shardings.at(values[i]));
    }
    c.ReplaceValue(node->output(static_cast<int>(i)), value);
    last = value.node;
  }
  c.ReplaceOperation(node, last);
}

}  // namespace mirrorflow
