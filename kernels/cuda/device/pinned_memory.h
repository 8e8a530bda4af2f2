// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory, which a GPU can access while the host continues, and copies of pageable
// memory that are staged through it. CUDA itself blocks the caller during a copy of pageable
// memory.
#ifndef MIRRORFLOW_KERNELS_CUDA_DEVICE_PINNED_MEMORY_H_
#define MIRRORFLOW_KERNELS_CUDA_DEVICE_PINNED_MEMORY_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/core/monotonic_time.h"
#include "kernels/cuda/device/cuda_event.h"

namespace mirrorflow {

// The timeout for copies outside a step, which have no deadline.
inline constexpr absl::Duration kCopyTimeout = absl::Minutes(5);

class PinnedMemory {
 public:
  PinnedMemory() = default;
  ~PinnedMemory() {
    if (memory_ != nullptr) cudaFreeHost(memory_);
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  absl::Status Make(size_t bytes);
  std::byte* get() const { return memory_; }
  // Gives up the memory without freeing it, because a GPU may still be using it.
  std::byte* Release() { return std::exchange(memory_, nullptr); }

 private:
  std::byte* memory_ = nullptr;
};

// Copies from the host to one GPU. One half of the memory is filled while the copy from the other
// half is in flight.
class StagedCopies {
 public:
  absl::Status Make(cudaStream_t stream);
  void Leak() { memory_.Release(); }
  // Copies in stream order. The caller may reuse `host` on return.
  absl::Status Copy(const std::byte* host, std::byte* device, size_t bytes);

 private:
  cudaStream_t stream_ = nullptr;  // owned by the device
  PinnedMemory memory_;
  size_t staged_ = 0;  // bytes in the half that is being filled
  int half_ = 0;
  CudaEvent read_[2];  // recorded when the GPU has read each half
};

// Copies from one GPU to the host. One half of the memory is emptied while the copy to the other
// half is in flight.
class StagedReads {
 public:
  absl::Status Make();
  void Leak() { memory_.Release(); }
  // Waits for all earlier work on the stream and for the copy, until the deadline at the latest.
  absl::Status Read(cudaStream_t stream, const std::byte* device, std::byte* host, size_t bytes,
                    MonotonicTime deadline);

 private:
  PinnedMemory memory_;
  CudaEvent arrived_[2];  // recorded when the copy to each half has finished
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_DEVICE_PINNED_MEMORY_H_
