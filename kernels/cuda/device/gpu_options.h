// SPDX-License-Identifier: Apache-2.0
//
// Options for a GPU device. Does not depend on CUDA.
#ifndef MIRRORFLOW_KERNELS_CUDA_DEVICE_GPU_OPTIONS_H_
#define MIRRORFLOW_KERNELS_CUDA_DEVICE_GPU_OPTIONS_H_

#include <cstddef>

#include "absl/status/statusor.h"

namespace mirrorflow {

// GPU memory that a collectives library allocates so that other GPUs can access it.
class CollectiveMemory {
 public:
  virtual ~CollectiveMemory() = default;
  // Allocates on the GPU that the calling thread has selected.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) const = 0;
  virtual void Free(void* memory) const = 0;
};

struct GpuOptions {
  // If true, every run of a step after the first executes the repeating parts of the step as CUDA
  // graphs: one graph for the whole step, or one for each stretch between two collectives.
  bool capture_steps = true;
  // Allocates the gradients that collectives reduce. Null means cudaMalloc. Must outlive the
  // device.
  const CollectiveMemory* collective_memory = nullptr;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_DEVICE_GPU_OPTIONS_H_
