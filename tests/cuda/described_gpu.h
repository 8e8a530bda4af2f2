// SPDX-License-Identifier: Apache-2.0
//
// Describes GPUs to cuDNN, for tests of its engines on machines without a GPU.
#ifndef MIRRORFLOW_TESTS_CUDA_DESCRIBED_GPU_H_
#define MIRRORFLOW_TESTS_CUDA_DESCRIBED_GPU_H_

#include <set>

#include "absl/status/statusor.h"
#include "kernels/cuda/libraries/cudnn_backend.h"
#include "kernels/cuda/libraries/cudnn_engine.h"

namespace mirrorflow {

// Returns the properties of an H100, except that its compute capability is `capability` / 10.
absl::StatusOr<CudnnDescriptor> DescribedGpu(int capability = 90);

std::set<cudnnBackendNumericalNote_t> NotesOf(const CudnnEngine& engine);

// Expects all engines to be deterministic, as precise as requested, and within the workspace limit.
void ExpectUsable(const CudnnProposals& engines, bool allow_tensor_cores);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CUDA_DESCRIBED_GPU_H_
