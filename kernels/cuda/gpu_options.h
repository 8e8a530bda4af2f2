// SPDX-License-Identifier: Apache-2.0
//
// What a GPU as a device can be told; knows nothing of CUDA.
#ifndef MIRRORFLOW_KERNELS_CUDA_GPU_OPTIONS_H_
#define MIRRORFLOW_KERNELS_CUDA_GPU_OPTIONS_H_

#include <cstddef>

#include "absl/status/statusor.h"

namespace mirrorflow {

// Memory of GPUs that a library of collectives has made, in a way that other GPUs can reach.
class CollectiveMemory {
 public:
  virtual ~CollectiveMemory() = default;
  // Of the GPU that the calling thread has selected.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) const = 0;
  virtual void Free(void* memory) const = 0;
};

struct GpuOptions {
  // What a step does the same way each time is run as CUDA graphs from the second time on: one for
  // the whole step, or one between two collectives.
  bool capture_steps = true;
  // Where gradients lie that collectives reduce; null for CUDA's own memory. Outlives the device.
  const CollectiveMemory* collective_memory = nullptr;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_GPU_OPTIONS_H_
