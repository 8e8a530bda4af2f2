// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_ALL_OPS_H_
#define MIRRORFLOW_OPS_ALL_OPS_H_

#include "framework/graph/op_registry.h"

namespace mirrorflow {

// Adds every op of this library to `ops`: what AllOps() is made by, for those who want to add ops
// of their own in a registry of their own.
void RegisterAllOps(OpRegistry& ops);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_ALL_OPS_H_
