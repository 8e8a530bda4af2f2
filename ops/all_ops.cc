// SPDX-License-Identifier: Apache-2.0
//
// The table of contents: one line a stem, sorted.
#include "ops/all_ops.h"

#include "framework/core/status.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/gather.h"
#include "ops/matmul.h"
#include "ops/registry.h"
#include "ops/reshape.h"
#include "ops/shape_ops.h"
#include "ops/slice.h"
#include "ops/strided_slice.h"
#include "ops/tile.h"
#include "ops/transpose.h"
#include "ops/update.h"
#include "ops/variable.h"

namespace mirrorflow {

void RegisterAllOps(OpRegistry& ops) {
  RegisterConcat(ops);
  RegisterConstant(ops);
  RegisterControl(ops);
  RegisterGather(ops);
  RegisterMatMul(ops);
  RegisterReshape(ops);
  RegisterShapeOps(ops);
  RegisterSlice(ops);
  RegisterStridedSlice(ops);
  RegisterTile(ops);
  RegisterTranspose(ops);
  RegisterUpdate(ops);
  RegisterVariable(ops);
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
