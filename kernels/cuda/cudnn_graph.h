// SPDX-License-Identifier: Apache-2.0
//
// Convolutions as graphs of cuDNN: the library proposes engines for a graph, and a lane executes
// one of them. Proposals depend only on the properties of the GPU, so they need no handle.
#ifndef MIRRORFLOW_KERNELS_CUDA_CUDNN_GRAPH_H_
#define MIRRORFLOW_KERNELS_CUDA_CUDNN_GRAPH_H_

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cudnn_backend.h"
#include "ops/convolution.h"

namespace mirrorflow {

enum class ConvolutionPart { kForward, kBackpropInput, kBackpropFilter };

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

// A way to compute a convolution.
struct CudnnEngine {
  // The graph, which comes last, and what it refers to.
  std::shared_ptr<const std::vector<CudnnDescriptor>> graph;
  CudnnDescriptor config;
  size_t workspace_bytes = 0;

  // A plan that executes it.
  absl::StatusOr<CudnnDescriptor> MakePlan() const;
};

// The properties of the current GPU.
absl::StatusOr<CudnnDescriptor> PropertiesOfGpu();

// The engines that such a GPU supports, in the order of the library's preference, `max_count` at
// most. Their sums do not depend on timing, are as precise as asked for, and need a workspace of
// kMaxCudnnWorkspaceBytes at most. Unimplemented if there are none.
inline constexpr size_t kMaxCudnnWorkspaceBytes = size_t{256} << 20;
absl::StatusOr<std::vector<std::shared_ptr<const CudnnEngine>>> ProposeEngines(
    const CudnnConvolution& convolution, const CudnnDescriptor& gpu, int max_count);

// The library's state of a lane: a handle, and the plans of the engines that the lane executes.
// They are the lane's own, because a plan serves one thread and one GPU at a time.
class CudnnLane {
 public:
  CudnnLane() = default;
  CudnnLane(const CudnnLane&) = delete;
  CudnnLane& operator=(const CudnnLane&) = delete;
  ~CudnnLane();

  // Enqueues the convolution. The stream must be the same in all calls. The first call with an
  // engine makes its plan.
  absl::Status Execute(cudaStream_t stream, const std::shared_ptr<const CudnnEngine>& engine,
                       const CudnnOperands& operands);

 private:
  struct Plan {
    std::weak_ptr<const CudnnEngine> of;
    CudnnDescriptor plan;
  };
  absl::StatusOr<cudnnBackendDescriptor_t> PlanOf(const std::shared_ptr<const CudnnEngine>& engine);

  cudnnHandle_t handle_ = nullptr;
  std::map<const CudnnEngine*, Plan> plans_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_CUDNN_GRAPH_H_
