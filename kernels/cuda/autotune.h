// SPDX-License-Identifier: Apache-2.0
//
// KernelOptions::autotune: which of several ways to do the same is the fastest on the current GPU,
// found out while a plan is made, on memory of its own, and kept in the session's TuningTable.
#ifndef MIRRORFLOW_KERNELS_CUDA_AUTOTUNE_H_
#define MIRRORFLOW_KERNELS_CUDA_AUTOTUNE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/runtime/kernel.h"

namespace mirrorflow {

// Memory of the current GPU with whatever is in it; frees itself.
using TrialMemory = std::unique_ptr<std::byte, void (*)(std::byte*)>;
absl::StatusOr<TrialMemory> AllocateForTrial(size_t bytes);

// The number, below `count`, of the way that takes the least time: the best of some runs, after one
// that does not count. `run(way, stream)` enqueues it. Ways that fail are no candidates; if all do,
// what the first says. DeadlineExceeded if the GPU does not finish one.
absl::StatusOr<int> FastestWay(int count, absl::FunctionRef<absl::Status(int, cudaStream_t)> run);

// Which of the proposals of a library (its name and version) computes the context's node: what the
// tuning table says for such a node on such a GPU, or what `fastest` finds, or the first, which the
// library would have taken, where there is no memory for a trial. Requires a table and proposals.
absl::StatusOr<int> ChooseProposal(const KernelContext& c, absl::string_view library,
                                   int num_proposals,
                                   absl::FunctionRef<absl::StatusOr<int>()> fastest);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_KERNELS_CUDA_AUTOTUNE_H_
