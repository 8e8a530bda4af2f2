// SPDX-License-Identifier: Apache-2.0
//
// CudaEvent owns a cudaEvent_t, which orders work on streams and lets the host wait for that work.
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

  // Creates the event on the thread's current GPU. Must be called first.
  absl::Status Make(unsigned int flags = cudaEventDisableTiming);
  cudaEvent_t get() const { return event_; }
  absl::Status Record(cudaStream_t stream) const;
  // Like Record, while `stream` is being captured. Each launch of the graph then records the event,
  // for streams outside the graph.
  absl::Status RecordFromGraph(cudaStream_t stream) const;
  // Makes later work on `stream` wait for the last Record.
  absl::Status MakeWait(cudaStream_t stream) const;
  // Blocks the host until the work before the last Record has finished: spins for a while, then
  // yields the core. Returns DeadlineExceeded if it has not finished by the deadline.
  absl::Status WaitUntil(MonotonicTime deadline) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_EVENT_H_
