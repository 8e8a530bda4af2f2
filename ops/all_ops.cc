// SPDX-License-Identifier: Apache-2.0
//
// The table of contents: one line for each stem, in alphabetical order.
#include "ops/all_ops.h"

#include "framework/core/status.h"
#include "ops/ops.h"
#include "ops/registry.h"

namespace mirrorflow {

void RegisterAllOps(OpRegistry& ops) {
  RegisterActivation(ops);
  RegisterAddN(ops);
  RegisterArgMax(ops);
  RegisterAssert(ops);
  RegisterAttention(ops);
  RegisterAvgPool(ops);
  RegisterBatchNorm(ops);
  RegisterBiasAdd(ops);
  RegisterBinary(ops);
  RegisterBinaryMath(ops);
  RegisterBitcast(ops);
  RegisterBitwise(ops);
  RegisterBroadcastGradient(ops);
  RegisterCast(ops);
  RegisterCheckNumerics(ops);
  RegisterClipByValue(ops);
  RegisterCollectives(ops);
  RegisterConcat(ops);
  RegisterConstant(ops);
  RegisterControl(ops);
  RegisterControlFlow(ops);
  RegisterConv2D(ops);
  RegisterCumulative(ops);
  RegisterDepthwiseConv2d(ops);
  RegisterDynamicStitch(ops);
  RegisterEinsum(ops);
  RegisterGather(ops);
  RegisterGatherNd(ops);
  RegisterGelu(ops);
  RegisterIdentity(ops);
  RegisterL2Loss(ops);
  RegisterLayerNorm(ops);
  RegisterListDiff(ops);
  RegisterMatMul(ops);
  RegisterMatrixDiag(ops);
  RegisterMaxPool(ops);
  RegisterMirrorPad(ops);
  RegisterOneHot(ops);
  RegisterOptional(ops);
  RegisterRandom(ops);
  RegisterReduction(ops);
  RegisterReplicaIndex(ops);
  RegisterReshape(ops);
  RegisterResourceScatter(ops);
  RegisterReverse(ops);
  RegisterSelect(ops);
  RegisterShapeOps(ops);
  RegisterSlice(ops);
  RegisterSoftmax(ops);
  RegisterSoftmaxXent(ops);
  RegisterSpaceToBatch(ops);
  RegisterSplit(ops);
  RegisterStatelessRandom(ops);
  RegisterStridedSlice(ops);
  RegisterTensorList(ops);
  RegisterTile(ops);
  RegisterTopK(ops);
  RegisterTranspose(ops);
  RegisterUnary(ops);
  RegisterUnaryGrad(ops);
  RegisterUnaryMath(ops);
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
