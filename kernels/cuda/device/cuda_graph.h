// SPDX-License-Identifier: Apache-2.0
//
// CudaGraph holds work that is recorded once and can be enqueued repeatedly, with one call.
#ifndef MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_GRAPH_H_
#define MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_GRAPH_H_

#include <cuda_runtime_api.h>

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace mirrorflow {

class CudaGraph {
 public:
  // Records, without running it, the work that `enqueue` puts on `stream` and on streams that fork
  // from `stream` and join it again. `enqueue` must not wait, allocate, or touch another stream.
  // After an error, nothing has run.
  static absl::StatusOr<std::unique_ptr<CudaGraph>> Capture(
      cudaStream_t stream, absl::FunctionRef<absl::Status()> enqueue);

  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph();

  absl::Status Launch(cudaStream_t stream) const;

 private:
  explicit CudaGraph(cudaGraphExec_t graph) : graph_(graph) {}

  const cudaGraphExec_t graph_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_GRAPH_H_
