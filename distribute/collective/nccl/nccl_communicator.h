// SPDX-License-Identifier: Apache-2.0
//
// The communicator of GPUs, built on NCCL. Start enqueues each collective on the given lane, as one
// call of NCCL or one group of calls, in order with the other work there; no host thread waits for
// the result. The ranks may belong to one worker or to several, which need a WorkerGroup only to
// connect.
//
// Contract, beyond that of Communicator. Memory and lanes are those of the rank's CUDA device.
// Start only enqueues. Finish reports whether the communicator still works; status(), called after
// the lanes are done, reports whether the enqueued work has succeeded. A watchdog polls NCCL for
// errors. At the first one, the communicators of all ranks of this worker are aborted, which ends
// the collectives that GPUs wait in. Means are computed by NCCL. There is no local team.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_NCCL_NCCL_COMMUNICATOR_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_NCCL_NCCL_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"
#include "framework/session/worker_group.h"
#include "kernels/cuda/gpu_options.h"

namespace mirrorflow {

struct NcclOptions {
  // How long enqueuing one call may take.
  absl::Duration timeout = absl::Minutes(5);
  // How often the watchdog polls NCCL.
  absl::Duration watch_interval = absl::Milliseconds(20);
  // Collectives may be captured into CUDA graphs; captured ones use separate communicators of NCCL.
  bool can_be_captured = false;
  // Sums are computed in one order: NCCL uses its ring, not its reductions in switches.
  bool deterministic = false;
};

// Creates the communicators of `local_ranks`, each for one thread. Rank local_ranks[i] of the world
// is the GPU that CUDA calls `gpus[i]`. Workers exchange NCCL's unique ids through `workers`, which
// is null if there is only one. InvalidArgument if a GPU is named twice, which NCCL does not
// support; DeadlineExceeded if the other ranks have not connected by `deadline`. Unimplemented in a
// build without CUDA.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectNccl(
    const Topology& topology, absl::Span<const int> local_ranks, absl::Span<const int> gpus,
    WorkerGroup* workers, absl::Time deadline, const NcclOptions& options = {});

// Allocates memory to which NCCL's collectives have the fastest access, once it is registered with
// their communicators. Null in a build without CUDA.
const CollectiveMemory* NcclMemory();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_NCCL_NCCL_COMMUNICATOR_H_
