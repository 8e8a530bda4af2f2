// SPDX-License-Identifier: Apache-2.0
//
// A GPU as a Device. Lanes are CUDA streams, and events are CUDA events. The thread that runs a
// step enqueues it in plan order and waits once, at the end, at most until the deadline. It does
// not wait at all if the host does not need the outcome. Within a step, only Lane::Read also waits.
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
  uint64_t writes;  // how many times kernels have ever written variables
};

// The lane that kernels enqueue on.
class CudaLane : public Lane {
 public:
  cudaStream_t stream() const { return stream_; }
  // Returns where kernels report invalid data, in device memory. Read after each step.
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

// Returns the bytes of GPU memory that the devices of this process currently hold: variables,
// arenas and feeds. This is what PyTorch counts as allocated: it excludes libraries and CUDA
// contexts.
int64_t AllocatedCudaBytes();

// How many calls the steps of this process have made, on all GPUs. Copies are those between the
// host and a GPU; each counts once per step, whether a graph or a call makes it. Waits are those of
// the host for the end of a step.
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
