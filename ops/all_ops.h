// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_OPS_ALL_OPS_H_
#define MIRRORFLOW_OPS_ALL_OPS_H_

#include "framework/graph/op_registry.h"

namespace mirrorflow {

// Adds every op of this library to `ops`. AllOps() is built this way; call it to build a registry
// that also has custom ops.
void RegisterAllOps(OpRegistry& ops);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_OPS_ALL_OPS_H_
