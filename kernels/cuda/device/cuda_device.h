// SPDX-License-Identifier: Apache-2.0
//
// A GPU as a Device: lanes are CUDA streams, and events are CUDA events. The thread that runs a
// step enqueues it in the order of the plan and waits once, at the end, until the deadline at most,
// or not at all if the host has nothing to learn from the step. Within a step, only Lane::Read
// waits as well.
#ifndef MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_DEVICE_H_
#define MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/runtime/device.h"
#include "kernels/cuda/device/gpu_options.h"

namespace mirrorflow {

// The device type of the kernels.
inline constexpr char kGpu[] = "GPU";

// Reports from kernels to the host: the first failure of a step on invalid data, and whether
// variables were written. The layout must match code/base.cuh.
struct DataFailure {
  const std::string* what;  // the message of the kernel; null if none failed
  int64_t value;
  uint64_t writes;  // how many kernels have ever written variables
};

// The lane that kernels enqueue on.
class CudaLane : public Lane {
 public:
  cudaStream_t stream() const { return stream_; }
  // Where kernels report invalid data, in the device's memory. The device reads it after each step.
  DataFailure* failure() const { return failure_; }

 protected:
  cudaStream_t stream_ = nullptr;
  DataFailure* failure_ = nullptr;
};

inline cudaStream_t StreamOf(Lane& lane) { return static_cast<CudaLane&>(lane).stream(); }

// Creates the replica's device `GPU:index` on the GPU that CUDA numbers `ordinal`. NotFound if
// there is no such GPU, else CUDA's error if it cannot be used.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int index, int ordinal,
                                                         const GpuOptions& options = {});

// The bytes of GPU memory that the devices of this process hold now: variables, arenas and feeds.
// It is what PyTorch counts as allocated: neither libraries nor CUDA's contexts are in it.
int64_t AllocatedCudaBytes();

// Counts of the calls that steps of this process have made, on all GPUs. A copy goes between the
// host and a GPU; it counts once for each step, whether a graph or a call makes it. Waits are those
// of the host for the end of a step.
struct CudaActivity {
  int64_t copies_in = 0;
  int64_t copies_out = 0;
  int64_t graph_launches = 0;
  int64_t waits = 0;

  CudaActivity operator-(const CudaActivity& before) const {
    return {copies_in - before.copies_in, copies_out - before.copies_out,
            graph_launches - before.graph_launches, waits - before.waits};
  }
};
CudaActivity ActivityOfSteps();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_DEVICE_CUDA_DEVICE_H_
