// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_IDENTITY_H_
#define MIRRORFLOW_OPS_IDENTITY_H_

#include "framework/graph/scope.h"

namespace mirrorflow {

void RegisterIdentity(OpRegistry& ops);

namespace ops {

// Identity: its operand, under another name. A view: in a plan it costs nothing.
// Gradient: dy.
Output Identity(const Scope& scope, Output input);

// StopGradient: its operand, taken for a constant by gradients.
Output StopGradient(const Scope& scope, Output input);

}  // namespace ops
}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_IDENTITY_H_
