// SPDX-License-Identifier: Apache-2.0
//
// Table of contents of the CPU kernels: one line per file, sorted.
#include "kernels/cpu/all_kernels.h"

#include "kernels/cpu/reduced_precision.h"

namespace mirrorflow {

// F(Stem) stands for one kernel file, which defines Register<Stem>Cpu. The macro also declares
// these functions, because kernel files have no headers.
// clang-format off
#define MF_STEMS(F)       \
  F(Activation)           \
  F(AddN)                 \
  F(ArgMax)               \
  F(Assert)               \
  F(Attention)            \
  F(AvgPool)              \
  F(BatchNorm)            \
  F(BiasAdd)              \
  F(Binary)               \
  F(BinaryMath)           \
  F(Bitcast)              \
  F(Bitwise)              \
  F(BroadcastGradient)    \
  F(Cast)                 \
  F(CheckNumerics)        \
  F(ClipByValue)          \
  F(Collectives)          \
  F(Concat)               \
  F(Constant)             \
  F(Conv2D)               \
  F(Cumulative)           \
  F(DepthwiseConv2d)      \
  F(DynamicStitch)        \
  F(Einsum)               \
  F(FusedElementwise)     \
  F(Gather)               \
  F(GatherNd)             \
  F(Gelu)                 \
  F(Identity)             \
  F(L2Loss)               \
  F(LayerNorm)            \
  F(ListDiff)             \
  F(MatMul)               \
  F(MatrixDiag)           \
  F(MaxPool)              \
  F(MirrorPad)            \
  F(OneHot)               \
  F(Random)               \
  F(Reduction)            \
  F(ReplicaIndex)         \
  F(ResourceScatter)      \
  F(Reverse)              \
  F(Select)               \
  F(ShapeOps)             \
  F(Slice)                \
  F(Softmax)              \
  F(SoftmaxXent)          \
  F(SpaceToBatch)         \
  F(Split)                \
  F(StatelessRandom)      \
  F(StridedSlice)         \
  F(Tile)                 \
  F(TopK)                 \
  F(Transpose)            \
  F(Unary)                \
  F(UnaryGrad)            \
  F(UnaryMath)            \
  F(Update)               \
  F(Variable)
// clang-format on

#define MF_DECLARE(Stem) void Register##Stem##Cpu(KernelRegistry& kernels);
MF_STEMS(MF_DECLARE)

void RegisterCpuKernels(KernelRegistry& kernels) {
#define MF_CALL(Stem) Register##Stem##Cpu(kernels);
  MF_STEMS(MF_CALL)
  kernels.SetFallback("CPU", CreateInFloat);
}

const KernelRegistry& CpuKernels() {
  static const KernelRegistry* const registry = [] {
    auto* kernels = new KernelRegistry();
    RegisterCpuKernels(*kernels);
    return kernels;
  }();
  return *registry;
}

}  // namespace mirrorflow
