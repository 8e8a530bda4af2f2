// SPDX-License-Identifier: Apache-2.0
//
// A double of the CUDA runtime, which a test links in its place: streams are queues with a thread
// each, which run with random delays, and memory is the host's; kernels are
// what nvrtc_double.cc makes. What was enqueued is recorded, with
// what it reads and writes, so that the order of a whole step can be checked and not just what it
// happened to compute. Only what kernels/cuda calls is here; nothing that
// nvcc compiled can run.
#ifndef MIRRORFLOW_KERNELS_CUDA_CUDA_DOUBLE_H_
#define MIRRORFLOW_KERNELS_CUDA_CUDA_DOUBLE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace mirrorflow {

struct CudaDoubleOptions {
  int num_gpus = 1;
  size_t memory_bytes = size_t{1} << 30;  // of each
  uint64_t seed = 1;                      // of the delays
  // Plants a bug: of the calls of cudaStreamWaitEvent for GPU 0, the one with this number does
  // nothing.
  int ignored_wait = -1;
  // The first call of this name fails with this error.
  std::string failing_call = {};
  cudaError_t error = cudaErrorUnknown;
  // The operation of this name is never done.
  std::string stuck_operation = {};
  // cuBLASLt has products that write masks of what is positive, and others that read them.
  bool has_relu_masks = true;
};

// Forgets the recording and all plants. Requires that nothing of an earlier test is in use.
void ResetCudaDouble(const CudaDoubleOptions& options = {});

bool DoubleHasReluMasks();

struct MemoryRange {
  const void* begin;
  size_t bytes;
  bool is_write;
};

// While one lives, what this thread launches has this name and touches these bytes, for all that
// the recording knows.
class DoubleAccesses {
 public:
  DoubleAccesses(std::string name, std::vector<MemoryRange> accesses);
  ~DoubleAccesses();
};

// What a kernel launch is here: runs `work` when its turn comes.
void LaunchOnDouble(cudaStream_t stream, const std::string& name,
                    const std::vector<MemoryRange>& accesses, std::function<void()> work);

// The same, with the name and the accesses of the DoubleAccesses that lives; `name` if there is
// none.
void LaunchWatchedOnDouble(cudaStream_t stream, const std::string& name,
                           std::function<void()> work);

// How many operations were enqueued, how many waits on GPU 0, and how many graphs were launched,
// since the last Reset.
int NumRecordedOperations();
int NumRecordedWaits();
int NumGraphLaunches();

// Whether any two operations that touch the same bytes, one of them writing, were ordered by a
// stream, by events or by the host having waited; else names the first two that were not.
absl::Status CheckRecordedOrder();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_CUDA_DOUBLE_H_
