// SPDX-License-Identifier: Apache-2.0
//
// The communicator of the GPUs of one process: each collective is a call of NCCL on the lane that
// it is given, in order with what else is enqueued there; no host waits for it.
//
// Contract, beyond that of Communicator. Memory and lanes are those of the rank's CUDA device.
// Start enqueues, Finish only says whether the communicator still works, and Check, after the lanes
// are done, whether what was enqueued has. A watchdog asks NCCL for errors; at the first one all
// ranks' communicators are aborted, which ends the collectives that GPUs wait in. Averages are
// NCCL's own. Split is Unimplemented.
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
  // How long one call may take to be enqueued.
  absl::Duration timeout = absl::Minutes(5);
  // How often the watchdog looks.
  absl::Duration watch_interval = absl::Milliseconds(20);
  // Collectives may be captured into CUDA graphs; those that are have communicators of their own.
  bool can_be_captured = false;
  // Sums are made in one order: NCCL's ring, not its reductions in switches.
  bool deterministic = false;
};

// The ends of `local_ranks` of the world, of which rank local_ranks[i] is the GPU that CUDA calls
// `gpus[i]`; each for one thread. Workers exchange NCCL's unique ids through `workers`, which is
// null if there is one. InvalidArgument if a GPU is named twice, which NCCL cannot do;
// DeadlineExceeded if the other ranks are not there by `deadline`. Unimplemented in a build without
// CUDA.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectNccl(
    const Topology& topology, absl::Span<const int> local_ranks, absl::Span<const int> gpus,
    WorkerGroup* workers, absl::Time deadline, const NcclOptions& options = {});

// Memory that NCCL's collectives reach in the fastest way there is, once it is registered with
// their communicators. Null in a build without CUDA.
const CollectiveMemory* NcclMemory();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_NCCL_NCCL_COMMUNICATOR_H_
