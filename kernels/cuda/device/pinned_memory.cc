// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/device/pinned_memory.h"

#include <algorithm>
#include <cstring>

#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "kernels/cuda/device/cuda_status.h"

namespace mirrorflow {
namespace {

constexpr size_t kHalf = size_t{2} << 20;

}  // namespace

absl::Status PinnedMemory::Make(size_t bytes) {
  return MF_CUDA_STATUS(
      cudaMallocHost(reinterpret_cast<void**>(&memory_), std::max<size_t>(bytes, 1)));
}

absl::Status StagedCopies::Make(cudaStream_t stream) {
  stream_ = stream;
  MF_RETURN_IF_ERROR(memory_.Make(2 * kHalf));
  for (CudaEvent& read : read_) {
    MF_RETURN_IF_ERROR(read.Make());
    MF_RETURN_IF_ERROR(read.Record(stream_));
  }
  return absl::OkStatus();
}

absl::Status StagedCopies::Copy(const std::byte* host, std::byte* device, size_t bytes) {
  while (bytes > 0) {
    const size_t some = std::min(bytes, kHalf - staged_);
    if (some == 0) {
      MF_RETURN_IF_ERROR(read_[half_].Record(stream_));
      half_ = 1 - half_;
      staged_ = 0;
      MF_RETURN_IF_ERROR(read_[half_].WaitUntil(MonotonicTime::Now() + kCopyTimeout));
      continue;
    }
    std::byte* const staged = memory_.get() + half_ * kHalf + staged_;
    std::memcpy(staged, host, some);
    MF_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(device, staged, some, cudaMemcpyHostToDevice, stream_));
    staged_ += some;
    host += some;
    device += some;
    bytes -= some;
  }
  return absl::OkStatus();
}

absl::Status StagedReads::Make() {
  MF_RETURN_IF_ERROR(memory_.Make(2 * kHalf));
  for (CudaEvent& arrived : arrived_) MF_RETURN_IF_ERROR(arrived.Make());
  return absl::OkStatus();
}

absl::Status StagedReads::Read(cudaStream_t stream, const std::byte* device, std::byte* host,
                               size_t bytes, MonotonicTime deadline) {
  const auto start = [&](size_t begin, int half) -> absl::Status {
    MF_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(memory_.get() + half * kHalf, device + begin,
                                            std::min(kHalf, bytes - begin), cudaMemcpyDeviceToHost,
                                            stream));
    return arrived_[half].Record(stream);
  };
  if (bytes > 0) MF_RETURN_IF_ERROR(start(0, 0));
  int half = 0;
  for (size_t begin = 0; begin < bytes; begin += kHalf, half = 1 - half) {
    if (begin + kHalf < bytes) MF_RETURN_IF_ERROR(start(begin + kHalf, 1 - half));
    MF_RETURN_IF_ERROR(arrived_[half].WaitUntil(deadline));
    std::memcpy(host + begin, memory_.get() + half * kHalf, std::min(kHalf, bytes - begin));
  }
  return absl::OkStatus();
}

}  // namespace mirrorflow
