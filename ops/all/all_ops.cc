// SPDX-License-Identifier: Apache-2.0
//
// The table of contents: one line per stem, in the alphabetical order of the Register functions.
#include "ops/all/all_ops.h"

#include "framework/core/status.h"
#include "ops/all/ops.h"
#include "ops/registry.h"

namespace mirrorflow {

namespace {
// clang-format off
constexpr OpFamily kFamilies[] = {
    {"activation", RegisterActivation},
    {"add_n", RegisterAddN},
    {"arg_max", RegisterArgMax},
    {"assert", RegisterAssert},
    {"attention", RegisterAttention},
    {"avg_pool", RegisterAvgPool},
    {"batch_norm", RegisterBatchNorm},
    {"bias_add", RegisterBiasAdd},
    {"binary", RegisterBinary},
    {"binary_math", RegisterBinaryMath},
    {"bitcast", RegisterBitcast},
    {"bitwise", RegisterBitwise},
    {"broadcast_gradient", RegisterBroadcastGradient},
    {"cast", RegisterCast},
    {"check_numerics", RegisterCheckNumerics},
    {"clip_by_value", RegisterClipByValue},
    {"collectives", RegisterCollectives},
    {"concat", RegisterConcat},
    {"constant", RegisterConstant},
    {"control", RegisterControl},
    {"control_flow/control_flow", RegisterControlFlow},
    {"conv2d", RegisterConv2D},
    {"cumulative", RegisterCumulative},
    {"depthwise_conv2d", RegisterDepthwiseConv2d},
    {"dynamic_stitch", RegisterDynamicStitch},
    {"einsum", RegisterEinsum},
    {"gather", RegisterGather},
    {"gather_nd", RegisterGatherNd},
    {"gelu", RegisterGelu},
    {"identity", RegisterIdentity},
    {"l2_loss", RegisterL2Loss},
    {"layer_norm", RegisterLayerNorm},
    {"list_diff", RegisterListDiff},
    {"matmul", RegisterMatMul},
    {"matrix_diag", RegisterMatrixDiag},
    {"max_pool", RegisterMaxPool},
    {"mirror_pad", RegisterMirrorPad},
    {"one_hot", RegisterOneHot},
    {"control_flow/optional", RegisterOptional},
    {"random", RegisterRandom},
    {"reduction", RegisterReduction},
    {"replica_index", RegisterReplicaIndex},
    {"reshape", RegisterReshape},
    {"resource_scatter", RegisterResourceScatter},
    {"reverse", RegisterReverse},
    {"select", RegisterSelect},
    {"shape_ops", RegisterShapeOps},
    {"slice", RegisterSlice},
    {"softmax", RegisterSoftmax},
    {"softmax_xent", RegisterSoftmaxXent},
    {"space_to_batch", RegisterSpaceToBatch},
    {"split", RegisterSplit},
    {"stateless_random", RegisterStatelessRandom},
    {"strided_slice", RegisterStridedSlice},
    {"control_flow/tensor_list", RegisterTensorList},
    {"tile", RegisterTile},
    {"top_k", RegisterTopK},
    {"transpose", RegisterTranspose},
    {"unary", RegisterUnary},
    {"unary_grad", RegisterUnaryGrad},
    {"unary_math", RegisterUnaryMath},
    {"update", RegisterUpdate},
    {"variable", RegisterVariable},
};
// clang-format on
}  // namespace

absl::Span<const OpFamily> OpFamilies() { return kFamilies; }

void RegisterAllOps(OpRegistry& ops) {
  for (const OpFamily& family : OpFamilies()) family.register_ops(ops);
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
