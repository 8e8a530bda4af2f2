// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/cuda_event.h"

#include <cstdint>
#include <thread>

#include "absl/strings/str_cat.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_status.h"

namespace mirrorflow {

absl::Status CudaEvent::Make() {
  MF_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  return absl::OkStatus();
}

absl::Status CudaEvent::Record(cudaStream_t stream) const {
  MF_RETURN_IF_CUDA_ERROR(cudaEventRecord(event_, stream));
  return absl::OkStatus();
}

absl::Status CudaEvent::RecordFromGraph(cudaStream_t stream) const {
  MF_RETURN_IF_CUDA_ERROR(cudaEventRecordWithFlags(event_, stream, cudaEventRecordExternal));
  return absl::OkStatus();
}

absl::Status CudaEvent::MakeWait(cudaStream_t stream) const {
  MF_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(stream, event_, 0));
  return absl::OkStatus();
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
