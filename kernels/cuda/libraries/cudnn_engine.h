// SPDX-License-Identifier: Apache-2.0
//
// Engines of cuDNN: the library proposes engines for a graph, and a lane executes one of them.
// Proposals depend only on the properties of the GPU, so they need no handle.
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
  // The graph, which comes last, and what it refers to.
  std::shared_ptr<const std::vector<CudnnDescriptor>> graph;
  CudnnDescriptor config;
  size_t workspace_bytes = 0;

  // A plan that executes it.
  absl::StatusOr<CudnnDescriptor> MakePlan() const;
};

// The properties of the current GPU.
absl::StatusOr<CudnnDescriptor> PropertiesOfGpu();

using CudnnProposals = std::vector<std::shared_ptr<const CudnnEngine>>;

// The engines that such a GPU supports for a graph, in the order of the library's preference,
// `max_count` at most. Their sums do not depend on timing, are as precise as asked for, and need a
// workspace of kMaxCudnnWorkspaceBytes at most. `graph` comes last in the descriptors, after what
// it refers to. Unimplemented if there are none.
inline constexpr size_t kMaxCudnnWorkspaceBytes = size_t{256} << 20;
absl::StatusOr<CudnnProposals> ProposeEngines(std::vector<CudnnDescriptor> graph,
                                              const CudnnDescriptor& gpu, bool allow_tensor_cores,
                                              int max_count);

// The memory of the tensors of a graph that are not virtual, in any order.
struct CudnnBindings {
  std::vector<int64_t> ids;
  // On the GPU, aligned to kBufferAlignment; on the host for tensors that are passed by value.
  std::vector<void*> addresses;
  void* workspace = nullptr;
};

// The library's state of a lane: a handle, and the plans of the engines that the lane executes.
// They are the lane's own, because a plan serves one thread and one GPU at a time.
class CudnnLane {
 public:
  CudnnLane() = default;
  CudnnLane(const CudnnLane&) = delete;
  CudnnLane& operator=(const CudnnLane&) = delete;
  ~CudnnLane();

  // Enqueues the graph. The stream must be the same in all calls. The first call with an engine
  // makes its plan.
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
