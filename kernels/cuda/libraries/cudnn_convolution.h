// SPDX-License-Identifier: Apache-2.0
//
// The kernels of convolutions by cuDNN, with the bias and Relu of the node in the library's graph
// if it has an engine for that. The workspace is the kernel's scratch.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_CONVOLUTION_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_CONVOLUTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/runtime/kernel_registry.h"
#include "kernels/cuda/libraries/cudnn_graph.h"
#include "ops/window.h"

namespace mirrorflow {

// Whether the context's node applies Relu to the result.
bool HasRelu(const KernelContext& c);

// A kernel for the context's node, with the inputs of the op: images (0), filter (1), and the bias
// or the gradient of the output (2). An input that only gives the sizes of the result is not read.
// Requires that no size is 0. Unimplemented for dtypes other than half, bfloat16 and float, and
// where the library has no engine or fails to propose one, of which it warns once.
absl::StatusOr<KernelPlan> MakeCudnnConvolution(const KernelContext& c,
                                                const ConvolutionGeometry& geometry,
                                                ConvolutionPart part);

// How often the library has failed to propose an engine in this process, for a reason other than
// that it has none.
int64_t NumCudnnFailures();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_CONVOLUTION_H_
