// SPDX-License-Identifier: Apache-2.0
//
// The table of contents: one line a stem, sorted.
#include "ops/all_ops.h"

#include "framework/core/status.h"
#include "ops/add_n.h"
#include "ops/arg_max.h"
#include "ops/bias_add.h"
#include "ops/binary.h"
#include "ops/broadcast_gradient.h"
#include "ops/cast.h"
#include "ops/concat.h"
#include "ops/constant.h"
#include "ops/control.h"
#include "ops/conv2d.h"
#include "ops/gather.h"
#include "ops/identity.h"
#include "ops/matmul.h"
#include "ops/max_pool.h"
#include "ops/random.h"
#include "ops/reduction.h"
#include "ops/registry.h"
#include "ops/replica_index.h"
#include "ops/reshape.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/slice.h"
#include "ops/softmax.h"
#include "ops/softmax_xent.h"
#include "ops/strided_slice.h"
#include "ops/tile.h"
#include "ops/transpose.h"
#include "ops/unary.h"
#include "ops/unary_grad.h"
#include "ops/update.h"
#include "ops/variable.h"

namespace mirrorflow {

void RegisterAllOps(OpRegistry& ops) {
  RegisterAddN(ops);
  RegisterArgMax(ops);
  RegisterBiasAdd(ops);
  RegisterBinary(ops);
  RegisterBroadcastGradient(ops);
  RegisterCast(ops);
  RegisterConcat(ops);
  RegisterConstant(ops);
  RegisterControl(ops);
  RegisterConv2D(ops);
  RegisterGather(ops);
  RegisterIdentity(ops);
  RegisterMatMul(ops);
  RegisterMaxPool(ops);
  RegisterRandom(ops);
  RegisterReduction(ops);
  RegisterReplicaIndex(ops);
  RegisterReshape(ops);
  RegisterSelect(ops);
  RegisterShapeOps(ops);
  RegisterSlice(ops);
  RegisterSoftmax(ops);
  RegisterSoftmaxXent(ops);
  RegisterStridedSlice(ops);
  RegisterTile(ops);
  RegisterTranspose(ops);
  RegisterUnary(ops);
  RegisterUnaryGrad(ops);
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
