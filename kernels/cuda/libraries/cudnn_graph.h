// SPDX-License-Identifier: Apache-2.0
//
// Convolutions as graphs of cuDNN.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_GRAPH_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_GRAPH_H_

#include <cudnn.h>

#include "absl/status/statusor.h"
#include "kernels/cuda/libraries/cudnn_engine.h"
#include "ops/window.h"

namespace mirrorflow {

// The operations that the library adds to a forward convolution before it rounds the result.
enum class CudnnEpilogue { kNone, kBias, kBiasAndRelu };

// A convolution in the library's layouts: images and output are those of the geometry, and the
// filter is [out, h, w, in / groups], or [out, in / groups, h, w] for images with channels first.
struct CudnnConvolution {
  ConvolutionPart part = ConvolutionPart::kForward;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  ConvolutionGeometry geometry = {};  // `before` is the padding on both sides
  CudnnEpilogue epilogue = CudnnEpilogue::kNone;
  bool allow_tf32 = false;  // floats may be rounded to TensorFloat-32
};

// The addresses of a convolution, all aligned to kBufferAlignment. One of the first three is the
// result. `bias` is only read by an epilogue.
struct CudnnOperands {
  void* images = nullptr;
  void* filter = nullptr;
  void* output = nullptr;
  void* bias = nullptr;
  void* workspace = nullptr;
};

CudnnBindings BindingsOf(const CudnnOperands& operands);

// The engines for a convolution; see ProposeEngines of a graph.
absl::StatusOr<CudnnProposals> ProposeEngines(const CudnnConvolution& convolution,
                                              const CudnnDescriptor& gpu, int max_count);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_GRAPH_H_
