// SPDX-License-Identifier: Apache-2.0
//
// Table of contents of the GPU kernels: one line per stem, sorted.
#include "kernels/cuda/cuda_kernels.h"

#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/libraries/program.h"

namespace mirrorflow {

// MF_STEMS(F) calls F(Stem) for each kernel stem. Each stem defines Register<Stem>Cuda. These
// functions are declared below with the same macro, because kernel stems have no headers.
// clang-format off
#define MF_STEMS(F)   \
  F(Attention)        \
  F(BatchNorm)        \
  F(BiasAdd)          \
  F(Checks)           \
  F(Concat)           \
  F(Conv2D)           \
  F(Cumulative)       \
  F(DepthwiseConv2d)  \
  F(DynamicStitch)    \
  F(Einsum)           \
  F(Formulas)         \
  F(FusedElementwise) \
  F(Gather)           \
  F(Identity)         \
  F(LayerNorm)        \
  F(MatMul)           \
  F(MatrixDiag)       \
  F(MirrorPad)        \
  F(Pool)             \
  F(Random)           \
  F(Reduction)        \
  F(ReplicaIndex)     \
  F(Scatter)          \
  F(ShapeOps)         \
  F(Shard)            \
  F(Slice)            \
  F(Softmax)          \
  F(SpaceToBatch)     \
  F(TopK)             \
  F(Transpose)        \
  F(Update)           \
  F(Variable)
// clang-format on

#define MF_DECLARE(Stem) void Register##Stem##Cuda(KernelRegistry& kernels);
MF_STEMS(MF_DECLARE)

void RegisterCudaKernels(KernelRegistry& kernels) {
#define MF_CALL(Stem) Register##Stem##Cuda(kernels);
  MF_STEMS(MF_CALL)
  kernels.SetLibrary(
      kGpu, []() -> std::unique_ptr<KernelLibrary> { return std::make_unique<CudaProgram>(); });
}

}  // namespace mirrorflow
