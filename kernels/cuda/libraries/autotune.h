// SPDX-License-Identifier: Apache-2.0
//
// KernelOptions::autotune: finds the fastest of several ways to compute the same result on the
// current GPU. Trials run while a plan is made, on memory of their own; the session's TuningTable
// keeps the choices.
#ifndef MIRRORFLOW_KERNELS_CUDA_LIBRARIES_AUTOTUNE_H_
#define MIRRORFLOW_KERNELS_CUDA_LIBRARIES_AUTOTUNE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {

// Uninitialised memory of the current GPU; its deleter frees it.
using TrialMemory = std::unique_ptr<std::byte, void (*)(std::byte*)>;
absl::StatusOr<TrialMemory> AllocateForTrial(size_t bytes);

// The index, below `count`, of the fastest way: the one with the shortest of several runs, after a
// warm-up run. `run(way, stream)` enqueues it. One call at a time measures. Ways that fail are left
// out; if all fail, returns the error of the first. DeadlineExceeded if the GPU does not finish a
// run.
absl::StatusOr<int> FastestWay(int count, absl::FunctionRef<absl::Status(int, cudaStream_t)> run);

// Chooses the proposal of a library (its name and version) that computes the context's node: the
// one in the tuning table for such a node on such a GPU, else the result of `fastest`. Without
// memory for a trial it is the first, the library's own choice. Requires a tuning table and
// proposals.
absl::StatusOr<int> ChooseProposal(const KernelContext& c, absl::string_view library,
                                   int num_proposals,
                                   absl::FunctionRef<absl::StatusOr<int>()> fastest);

// The kernel of the context's node: the one that `ours` makes, which is proposal 0, or one of those
// that `theirs` makes with a library (its name and version), `max_theirs` at most. Their order must
// be the same in every call. They must need no code of the plan's program. Requires a tuning table.
absl::StatusOr<KernelPlan> MakeFastestKernel(const KernelContext& c, KernelFactory ours,
                                             absl::string_view library, int max_theirs,
                                             absl::FunctionRef<std::vector<KernelPlan>()> theirs);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_AUTOTUNE_H_
