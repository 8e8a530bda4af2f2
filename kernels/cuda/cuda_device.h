// SPDX-License-Identifier: Apache-2.0
//
// A GPU as a Device: lanes are CUDA streams, events are CUDA events. A step is enqueued in the
// order of the plan by the thread that runs it, and that thread waits once, at its end, looking at
// the deadline all the time; nothing else waits but Lane::Read.
#ifndef MIRRORFLOW_KERNELS_CUDA_CUDA_DEVICE_H_
#define MIRRORFLOW_KERNELS_CUDA_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/runtime/device.h"
#include "kernels/cuda/gpu_options.h"

namespace mirrorflow {

// The device type of its kernels.
inline constexpr char kGpu[] = "GPU";

// What kernels tell the host: the first of a step's that has found something wrong with its data,
// and whether variables were written. Laid out as code/base.cuh has it.
struct DataFailure {
  const std::string* what;  // of the kernel; null if nothing is wrong
  int64_t value;
  uint64_t writes;  // kernels that have written variables, ever
};

// What kernels enqueue on.
class CudaLane : public Lane {
 public:
  cudaStream_t stream() const { return stream_; }
  // Where kernels say that their data is bad, in the device's memory. The device looks at it behind
  // each step.
  DataFailure* failure() const { return failure_; }

 protected:
  cudaStream_t stream_ = nullptr;
  DataFailure* failure_ = nullptr;
};

inline cudaStream_t StreamOf(Lane& lane) { return static_cast<CudaLane&>(lane).stream(); }

// The replica's device `GPU:index`, on the GPU that CUDA calls `ordinal`. NotFound if there is no
// GPU of that number, else what CUDA says if it cannot be used.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int index, int ordinal,
                                                         const GpuOptions& options = {});

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_CUDA_DEVICE_H_
