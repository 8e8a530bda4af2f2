// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TESTS_SUPPORT_OPS_WITH_FUSED_H_
#define MIRRORFLOW_TESTS_SUPPORT_OPS_WITH_FUSED_H_

#include "framework/graph/op_registry.h"

namespace mirrorflow {

// Returns AllOps and FusedOps in one registry, for single nodes with ops that only the compiler
// creates.
const OpRegistry& OpsWithFused();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_OPS_WITH_FUSED_H_
