// SPDX-License-Identifier: Apache-2.0
#include "tests/support/ops_with_fused.h"

#include "framework/core/status.h"
#include "ops/fused_ops.h"
#include "ops/registry.h"

namespace mirrorflow {

const OpRegistry& OpsWithFused() {
  static const OpRegistry* const registry = [] {
    auto* ops = new OpRegistry(&AllOps());
    for (const OpDef* op : FusedOps().All()) ops->Define(*op);
    MF_CHECK(ops->Seal().ok());
    return ops;
  }();
  return *registry;
}

}  // namespace mirrorflow
