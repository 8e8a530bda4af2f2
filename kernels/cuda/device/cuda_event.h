// SPDX-License-Identifier: Apache-2.0
//
// CudaEvent: an owned cudaEvent_t, which orders streams and tells the host how far one has come.
#ifndef MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_EVENT_H_
#define MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_EVENT_H_

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"

namespace mirrorflow {

class CudaEvent {
 public:
  CudaEvent() = default;
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&&) = delete;
  ~CudaEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  // Creates it, on the thread's current GPU. Required before anything else.
  absl::Status Make();
  absl::Status Record(cudaStream_t stream) const;
  // Record while `stream` is captured: each launch of the graph then records the event, for streams
  // outside the graph.
  absl::Status RecordFromGraph(cudaStream_t stream) const;
  // Makes later work on `stream` wait for the last Record.
  absl::Status HoldUp(cudaStream_t stream) const;
  // Waits on the host for the last Record: spins for a while, then yields the core.
  absl::Status WaitUntil(MonotonicTime deadline) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_EVENT_H_
