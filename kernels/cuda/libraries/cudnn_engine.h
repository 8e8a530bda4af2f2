// SPDX-License-Identifier: Apache-2.0
//
// cuDNN engines. The library proposes engines for a graph, and a lane executes one of them.
// Proposals depend only on the GPU's properties, so they need no handle.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_ENGINE_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_ENGINE_H_

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/libraries/cudnn_backend.h"

namespace mirrorflow {

// A way to compute a graph.
struct CudnnEngine {
  // The graph is the last descriptor, after the descriptors that it refers to.
  std::shared_ptr<const std::vector<CudnnDescriptor>> graph;
  CudnnDescriptor config;
  size_t workspace_bytes = 0;

  // Returns a plan that executes the engine.
  absl::StatusOr<CudnnDescriptor> MakePlan() const;
};

// Returns the properties of the current GPU.
absl::StatusOr<CudnnDescriptor> PropertiesOfGpu();

using CudnnProposals = std::vector<std::shared_ptr<const CudnnEngine>>;

// Returns the engines that a GPU with the properties `gpu` supports for a graph, at most
// `max_count`, in the library's order of preference. Their sums do not depend on timing and are as
// precise as requested, and they need a workspace of at most kMaxCudnnWorkspaceBytes. The graph is
// the last of the descriptors, after those that it refers to. Returns Unimplemented if no engine
// qualifies.
inline constexpr size_t kMaxCudnnWorkspaceBytes = size_t{256} << 20;
absl::StatusOr<CudnnProposals> ProposeEngines(std::vector<CudnnDescriptor> graph,
                                              const CudnnDescriptor& gpu, bool allow_tensor_cores,
                                              int max_count);

// The memory of the graph's non-virtual tensors, in any order.
struct CudnnBindings {
  std::vector<int64_t> ids;
  // Addresses in GPU memory, aligned to kBufferAlignment, or in host memory for tensors that are
  // passed by value.
  std::vector<void*> addresses;
  void* workspace = nullptr;
};

// The library's per-lane state: a handle, and the plans of the engines that the lane executes.
// Lanes do not share plans, because a plan can be used by only one thread and GPU at a time.
class CudnnLane {
 public:
  CudnnLane() = default;
  CudnnLane(const CudnnLane&) = delete;
  CudnnLane& operator=(const CudnnLane&) = delete;
  ~CudnnLane();

  // Enqueues the graph. The stream must be the same in all calls. The first call with an engine
  // creates its plan.
  absl::Status Execute(cudaStream_t stream, const std::shared_ptr<const CudnnEngine>& engine,
                       const CudnnBindings& bindings);

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

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_CUDNN_ENGINE_H_
