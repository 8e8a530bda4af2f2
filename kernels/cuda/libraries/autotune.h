// SPDX-License-Identifier: Apache-2.0
//
// KernelOptions::autotune finds the fastest of several ways to compute the same result on the
// current GPU. Trials run while a plan is made, on separately allocated memory. The session's
// TuningTable keeps the choices.
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

// Uninitialised memory on the current GPU, freed by its deleter.
using TrialMemory = std::unique_ptr<std::byte, void (*)(std::byte*)>;
absl::StatusOr<TrialMemory> AllocateForTrial(size_t bytes);

// Measures `count` ways to compute a result, and returns the index of the fastest. Each way runs
// several times after a warm-up run, and its shortest run counts. `run(way, stream)` enqueues a
// way. Only one call measures at a time. Skips ways that fail; if all fail, returns the first way's
// error. Returns DeadlineExceeded if the GPU does not finish a run in time.
absl::StatusOr<int> FastestWay(int count, absl::FunctionRef<absl::Status(int, cudaStream_t)> run);

// Chooses which proposal of `library` (a name and version) computes the context's node: the one
// that the tuning table lists for such a node on such a GPU, otherwise the result of `fastest`. If
// memory is insufficient for a trial, chooses the first proposal, which is the library's own
// choice. Requires a tuning table and at least one proposal.
absl::StatusOr<int> ChooseProposal(const KernelContext& c, absl::string_view library,
                                   int num_proposals,
                                   absl::FunctionRef<absl::StatusOr<int>()> fastest);

// Returns the fastest kernel for the context's node: either the one that `ours` makes, which is
// proposal 0, or one of the kernels, at most `max_theirs`, that `theirs` makes with `library` (a
// name and version). `theirs` must return its kernels in the same order in every call, and must not
// add code to the plan's program. Requires a tuning table.
absl::StatusOr<KernelPlan> MakeFastestKernel(const KernelContext& c, KernelFactory ours,
                                             absl::string_view library, int max_theirs,
                                             absl::FunctionRef<std::vector<KernelPlan>()> theirs);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_LIBRARIES_AUTOTUNE_H_
