// SPDX-License-Identifier: Apache-2.0
//
// Convolution kernels that use cuDNN. The library's graph includes the node's bias and Relu if an
// engine supports them. The workspace is the kernel's scratch.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_CONVOLUTION_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_CONVOLUTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cuda/libraries/cudnn_graph.h"
#include "ops/window.h"

namespace mirrorflow {

// Returns whether the context's node applies Relu to the result.
bool HasRelu(const KernelContext& c);

// Returns a kernel for the context's node, whose inputs are the images (0), the filter (1), and the
// bias or the output gradient (2). An input that only specifies the sizes of the result is not
// read. Requires that no size is 0. Returns Unimplemented for dtypes other than half, bfloat16 and
// float, and if the library has no engine or fails to propose one; a failure is logged once.
absl::StatusOr<KernelPlan> MakeCudnnConvolution(const KernelContext& c,
                                                const ConvolutionGeometry& geometry,
                                                ConvolutionPart part);

// Returns how often the library has failed to propose an engine in this process. Nodes that it has
// no engine for are not counted.
int64_t NumCudnnFailures();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_CONVOLUTION_H_
