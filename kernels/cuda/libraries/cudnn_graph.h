// SPDX-License-Identifier: Apache-2.0
//
// Convolutions as cuDNN graphs.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_GRAPH_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_GRAPH_H_

#include <cudnn.h>

#include "absl/status/statusor.h"
#include "kernels/cuda/libraries/cudnn_engine.h"
#include "ops/window.h"

namespace mirrorflow {

// Operations that the library fuses into a forward convolution before it rounds the result.
enum class CudnnEpilogue { kNone, kBias, kBiasAndRelu };

// A convolution in the library's layouts: the images and the output have the layout of the
// geometry, and the filter is [out, h, w, in / groups], or [out, in / groups, h, w] for
// channels-first images.
struct CudnnConvolution {
  ConvolutionPart part = ConvolutionPart::kForward;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  ConvolutionGeometry geometry = {};  // `before` is the padding on both sides
  CudnnEpilogue epilogue = CudnnEpilogue::kNone;
  bool allow_tf32 = false;  // whether floats may be rounded to TensorFloat-32
};

// The addresses of a convolution's operands, all aligned to kBufferAlignment. One of the first
// three is the result. Only an epilogue reads `bias`.
struct CudnnOperands {
  void* images = nullptr;
  void* filter = nullptr;
  void* output = nullptr;
  void* bias = nullptr;
  void* workspace = nullptr;
};

CudnnBindings BindingsOf(const CudnnOperands& operands);

// Returns the engines for a convolution; see the ProposeEngines of cudnn_engine.h.
absl::StatusOr<CudnnProposals> ProposeEngines(const CudnnConvolution& convolution,
                                              const CudnnDescriptor& gpu, int max_count);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_GRAPH_H_
