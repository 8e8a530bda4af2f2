// SPDX-License-Identifier: Apache-2.0
//
// A GPU as a Device. Lanes are CUDA streams, and events are CUDA events. The thread that runs a
// step enqueues it in plan order and waits once, at the end, until the deadline at the latest. It
// does not wait if the host does not need the outcome. Within a step, only Lane::Read waits.
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

// The device type of the GPU kernels.
inline constexpr char kGpu[] = "GPU";

// The report from kernels to the host: the first failure of a step on invalid data, and whether
// variables were written. The layout must match code/base.cuh.
struct DataFailure {
  const std::string* what;  // the kernel's message; null if no kernel failed
  int64_t value;
  uint64_t writes;  // how many times kernels have written variables since the device was created
};

// A lane for GPU kernels, which enqueue their work on its stream.
class CudaLane : public Lane {
 public:
  cudaStream_t stream() const { return stream_; }
  // Returns the device memory where kernels report invalid data. The host reads it after each step.
  DataFailure* failure() const { return failure_; }

 protected:
  cudaStream_t stream_ = nullptr;
  DataFailure* failure_ = nullptr;
};

inline cudaStream_t StreamOf(Lane& lane) { return static_cast<CudaLane&>(lane).stream(); }

// Creates the replica's device `GPU:index` on the GPU with CUDA ordinal `ordinal`. Returns NotFound
// if that GPU does not exist, or CUDA's error if it cannot be used.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int index, int ordinal,
                                                         const GpuOptions& options = {});

// Returns the bytes of GPU memory that this process's devices currently hold: variables, arenas and
// feeds. Like PyTorch's count of allocated memory, it excludes libraries and CUDA contexts.
int64_t AllocatedCudaBytes();

// Counts what the steps of this process have done, on all GPUs. Copies are between the host and a
// GPU; each is counted once per step, whether a graph or a call performs it. Waits are the host's
// waits for the end of a step.
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
