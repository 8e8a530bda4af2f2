// SPDX-License-Identifier: Apache-2.0
//
// Attention as a cuDNN graph, which autotune compares with the hand-written kernel. The library has
// operations for attention as a whole, but before version 9.21 they cannot be causal. The graph
// therefore lists the matrix products, the mask and the softmax one by one, and the library's
// engines recognise the pattern.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_ATTENTION_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_ATTENTION_H_

#include <cudnn.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/runtime/kernel.h"
#include "kernels/cuda/libraries/cudnn_engine.h"

namespace mirrorflow {

// ScaledDotProductAttention without a mask.
struct CudnnAttention {
  cudnnDataType_t type = CUDNN_DATA_HALF;
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, depth = 0, value_depth = 0;
  bool causal = false;
  // Whether q, k, v and y are [batch, rows, heads, columns] instead of [batch, heads, rows,
  // columns].
  bool heads_inside = false;
};

// Returns the engines for attention; see the ProposeEngines of cudnn_engine.h.
absl::StatusOr<CudnnProposals> ProposeEngines(const CudnnAttention& attention,
                                              const CudnnDescriptor& gpu, int max_count);

// Returns the library's kernels for a ScaledDotProductAttention node, at most kMaxCudnnAttentions,
// in the library's order of preference. Returns none if the library does not support the node on
// the current GPU.
inline constexpr int kMaxCudnnAttentions = 2;
std::vector<KernelPlan> CudnnAttentionKernels(const KernelContext& c);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_ATTENTION_H_
