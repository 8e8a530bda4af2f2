// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_event.h"

#include <cstdint>
#include <thread>

#include "framework/core/monotonic_time.h"
#include "kernels/cuda/device/cuda_status.h"

namespace mirrorflow {

absl::Status CudaEvent::Make(unsigned int flags) {
  return MF_CUDA_STATUS(cudaEventCreateWithFlags(&event_, flags));
}

absl::Status CudaEvent::Record(cudaStream_t stream) const {
  return MF_CUDA_STATUS(cudaEventRecord(event_, stream));
}

absl::Status CudaEvent::RecordFromGraph(cudaStream_t stream) const {
  return MF_CUDA_STATUS(cudaEventRecordWithFlags(event_, stream, cudaEventRecordExternal));
}

absl::Status CudaEvent::MakeWait(cudaStream_t stream) const {
  return MF_CUDA_STATUS(cudaStreamWaitEvent(stream, event_, 0));
}

absl::Status CudaEvent::WaitUntil(MonotonicTime deadline) const {
  constexpr int kSpins = 2000;
  for (int64_t turn = 0;; ++turn) {
    const cudaError_t error = cudaEventQuery(event_);
    if (error != cudaErrorNotReady) return CudaStatus(error, "cudaEventQuery(event_)");
    if (turn < kSpins) continue;
    if (MonotonicTime::Now() > deadline) {
      return absl::DeadlineExceededError("the GPU did not finish before the deadline");
    }
    std::this_thread::yield();
  }
}

}  // namespace mirrorflow
