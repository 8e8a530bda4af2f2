// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_graph.h"

#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_status.h"

namespace mirrorflow {

absl::StatusOr<std::unique_ptr<CudaGraph>> CudaGraph::Capture(
    cudaStream_t stream, absl::FunctionRef<absl::Status()> enqueue) {
  // Uses thread-local mode, so that other threads, which drive other GPUs, are not affected.
  MF_RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  absl::Status status = enqueue();
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);  // also after an error
  if (status.ok()) status = CudaStatus(ended, "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  if (status.ok()) {
    status = CudaStatus(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  MF_RETURN_IF_ERROR(status);
  return std::unique_ptr<CudaGraph>(new CudaGraph(executable));
}

CudaGraph::~CudaGraph() { cudaGraphExecDestroy(graph_); }

absl::Status CudaGraph::Launch(cudaStream_t stream) const {
  return MF_CUDA_STATUS(cudaGraphLaunch(graph_, stream));
}

}  // namespace mirrorflow
