// SPDX-License-Identifier: Apache-2.0
//
// Convolutions by cuDNN: the algorithm is chosen when the plan is made, by the library's heuristic,
// among those whose sums do not depend on timing. Workspace is the kernel's scratch.
#ifndef MIRRORFLOW_KERNELS_CUDA_CUDNN_CONVOLUTION_H_
#define MIRRORFLOW_KERNELS_CUDA_CUDNN_CONVOLUTION_H_

#include "absl/status/statusor.h"
#include "framework/runtime/kernel_registry.h"
#include "ops/convolution.h"

namespace mirrorflow {

enum class ConvolutionPart { kForward, kBackpropInput, kBackpropFilter };

// Inputs as the ops have them: images 0, filter 1, bias or gradient of the output 2; the sizes that
// take the place of what is computed are no operand. Requires that no size is 0. Unimplemented for
// dtypes other than half, bfloat16 and float, and where the library has no algorithm.
absl::StatusOr<KernelPlan> MakeCudnnConvolution(const KernelContext& c,
                                                const ConvolutionGeometry& geometry,
                                                ConvolutionPart part);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_CUDNN_CONVOLUTION_H_
