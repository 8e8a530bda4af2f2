// SPDX-License-Identifier: Apache-2.0
//
// The communicator of GPUs, built on NCCL. Start enqueues each collective on the given lane, as one
// call of NCCL or one group of calls, in order with the other work there; no host thread waits for
// the result. The ranks may belong to one worker or to several, which exchange NCCL's unique ids
// through their WorkerGroup.
//
// NCCL does not notice ranks whose collectives differ. They are compared before NCCL gets them
// (collective_agreement.h), which takes a round trip between workers when a step first runs.
//
// Contract, beyond that of Communicator. Memory and lanes are those of the rank's CUDA device.
// Start enqueues after that comparison. Finish reports whether the communicator still works;
// status(), called after the lanes are done, reports whether the enqueued work has succeeded. A
// watchdog polls NCCL for errors. At the first one, the communicators of all ranks of this worker
// are aborted, which ends the collectives that GPUs wait in; the session reports it to the other
// workers, whose Abort does the same. All workers destroy their communicators at about the same
// time: they wait for one another for 10 seconds. Means are computed by NCCL. There is no local
// team.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_NCCL_NCCL_COMMUNICATOR_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_NCCL_NCCL_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/communicator.h"
#include "framework/runtime/topology.h"
#include "framework/workers/worker_group.h"
#include "kernels/cuda/device/gpu_options.h"

namespace mirrorflow {

struct NcclOptions {
  // How long enqueuing one call may take, and how long another worker may be behind.
  absl::Duration timeout = absl::Minutes(5);
  // How often the watchdog polls NCCL.
  absl::Duration watch_interval = absl::Milliseconds(20);
  // Collectives may be captured into CUDA graphs; captured ones use separate communicators of NCCL.
  bool can_be_captured = false;
  // Sums are computed in one order: NCCL uses its ring, not its reductions in switches.
  bool deterministic = false;
  // The network device through which workers meet; empty: NCCL chooses.
  std::string network_device = "";
};

// InvalidArgument if NCCL_COMM_ID is set: NCCL would meet at an address that nothing has
// authenticated. OK in a build without CUDA.
absl::Status CheckNcclEnvironment();

// Creates the communicators of `local_ranks`, each for one thread. Rank local_ranks[i] of the world
// is the GPU that CUDA calls `gpus[i]`. `workers` is null if there is only one worker; it outlives
// the communicators, and its OnFailure is used until this function returns. InvalidArgument if a
// GPU is named twice, which NCCL does not support, or for CheckNcclEnvironment; DeadlineExceeded if
// the other ranks have not connected by `deadline`; the failure that another worker reports until
// then. Unimplemented in a build without CUDA.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectNccl(
    const Topology& topology, absl::Span<const int> local_ranks, absl::Span<const int> gpus,
    WorkerGroup* workers, MonotonicTime deadline, const NcclOptions& options = {});

// Allocates memory to which NCCL's collectives have the fastest access, once it is registered with
// their communicators. Null in a build without CUDA.
const CollectiveMemory* NcclMemory();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_NCCL_NCCL_COMMUNICATOR_H_
