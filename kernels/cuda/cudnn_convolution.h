// SPDX-License-Identifier: Apache-2.0
//
// Convolutions by cuDNN. When a plan is made, the library's heuristic chooses an algorithm among
// those whose sums do not depend on timing. The workspace is the kernel's scratch.
#ifndef MIRRORFLOW_KERNELS_CUDA_CUDNN_CONVOLUTION_H_
#define MIRRORFLOW_KERNELS_CUDA_CUDNN_CONVOLUTION_H_

#include "absl/status/statusor.h"
#include "framework/runtime/kernel_registry.h"
#include "ops/convolution.h"

namespace mirrorflow {

enum class ConvolutionPart { kForward, kBackpropInput, kBackpropFilter };

// A kernel for the context's node, with the inputs of the op: images (0), filter (1), and the bias
// or the gradient of the output (2). An input that only gives the sizes of the result is not read.
// Requires that no size is 0. Unimplemented for dtypes other than half, bfloat16 and float, and
// where the library has no algorithm.
absl::StatusOr<KernelPlan> MakeCudnnConvolution(const KernelContext& c,
                                                const ConvolutionGeometry& geometry,
                                                ConvolutionPart part);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_CUDNN_CONVOLUTION_H_
