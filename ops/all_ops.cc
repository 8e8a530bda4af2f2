// SPDX-License-Identifier: Apache-2.0
//
// The table of contents: one line a stem, sorted.
#include "ops/all_ops.h"

#include "framework/core/status.h"
#include "ops/constant.h"
#include "ops/matmul.h"
#include "ops/registry.h"

namespace mirrorflow {

void RegisterAllOps(OpRegistry& ops) {
  RegisterConstant(ops);
  RegisterMatMul(ops);
}

const OpRegistry& AllOps() {
  static const OpRegistry* const registry = [] {
    auto* ops = new OpRegistry();
    RegisterAllOps(*ops);
    MF_CHECK(ops->Seal().ok());
    return ops;
  }();
  return *registry;
}

}  // namespace mirrorflow
