// SPDX-License-Identifier: Apache-2.0
//
// The table of contents: one line per stem, in the alphabetical order of the Register functions.
#include "ops/all/all_ops.h"

#include "framework/core/status.h"
#include "ops/registry.h"

namespace mirrorflow {

// F(stem, Family) stands for the files of one stem, which define Register<Family>. The macro also
// declares these functions, because only this file calls them.
// clang-format off
#define MF_FAMILIES(F)                         \
  F("activation", Activation)                  \
  F("add_n", AddN)                             \
  F("arg_max", ArgMax)                         \
  F("assert", Assert)                          \
  F("attention", Attention)                    \
  F("avg_pool", AvgPool)                       \
  F("batch_norm", BatchNorm)                   \
  F("bias_add", BiasAdd)                       \
  F("binary", Binary)                          \
  F("binary_math", BinaryMath)                 \
  F("bitcast", Bitcast)                        \
  F("bitwise", Bitwise)                        \
  F("broadcast_gradient", BroadcastGradient)   \
  F("cast", Cast)                              \
  F("check_numerics", CheckNumerics)           \
  F("clip_by_value", ClipByValue)              \
  F("collectives", Collectives)                \
  F("concat", Concat)                          \
  F("constant", Constant)                      \
  F("control", Control)                        \
  F("control_flow/control_flow", ControlFlow)  \
  F("conv2d", Conv2D)                          \
  F("cumulative", Cumulative)                  \
  F("depthwise_conv2d", DepthwiseConv2d)       \
  F("dynamic_stitch", DynamicStitch)           \
  F("einsum", Einsum)                          \
  F("gather", Gather)                          \
  F("gather_nd", GatherNd)                     \
  F("gelu", Gelu)                              \
  F("identity", Identity)                      \
  F("l2_loss", L2Loss)                         \
  F("layer_norm", LayerNorm)                   \
  F("list_diff", ListDiff)                     \
  F("matmul", MatMul)                          \
  F("matrix_diag", MatrixDiag)                 \
  F("max_pool", MaxPool)                       \
  F("mirror_pad", MirrorPad)                   \
  F("one_hot", OneHot)                         \
  F("control_flow/optional", Optional)         \
  F("random", Random)                          \
  F("reduction", Reduction)                    \
  F("replica_index", ReplicaIndex)             \
  F("reshape", Reshape)                        \
  F("resource_scatter", ResourceScatter)       \
  F("reverse", Reverse)                        \
  F("select", Select)                          \
  F("shape_ops", ShapeOps)                     \
  F("slice", Slice)                            \
  F("softmax", Softmax)                        \
  F("softmax_xent", SoftmaxXent)               \
  F("space_to_batch", SpaceToBatch)            \
  F("split", Split)                            \
  F("stateless_random", StatelessRandom)       \
  F("strided_slice", StridedSlice)             \
  F("control_flow/tensor_list", TensorList)    \
  F("tile", Tile)                              \
  F("top_k", TopK)                             \
  F("transpose", Transpose)                    \
  F("unary", Unary)                            \
  F("unary_grad", UnaryGrad)                   \
  F("unary_math", UnaryMath)                   \
  F("update", Update)                          \
  F("variable", Variable)
// clang-format on

#define MF_DECLARE(stem, Family) void Register##Family(OpRegistry& ops);
MF_FAMILIES(MF_DECLARE)

absl::Span<const OpFamily> OpFamilies() {
#define MF_ROW(stem, Family) {stem, Register##Family},
  static constexpr OpFamily kFamilies[] = {MF_FAMILIES(MF_ROW)};
  return kFamilies;
}

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
