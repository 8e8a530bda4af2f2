// SPDX-License-Identifier: Apache-2.0
//
// The communicator of GPUs, built on NCCL. Start enqueues each collective on the given lane, as one
// NCCL call or one group of calls, in order with the other work on that lane. No host thread waits
// for the result. The ranks belong to one worker or to several workers, which exchange NCCL's
// unique ids through their WorkerGroup.
//
// NCCL does not detect that its ranks run different collectives, so collectives are compared before
// they are enqueued (collective_agreement.h). This takes a round trip between workers when a step
// first runs.
//
// The contract of Communicator applies, with these additions. Memory and lanes belong to the rank's
// CUDA device. Start enqueues after that comparison. Finish reports whether the communicator still
// works; status(), called after the lanes are done, reports whether the enqueued work has
// succeeded. A watchdog polls NCCL for errors. At the first error, the communicators of all ranks
// of this worker are aborted, which ends the collectives that GPUs wait in. The session reports the
// error to the other workers, whose Abort does the same. All workers must destroy their
// communicators at about the same time: they wait up to 10 seconds for one another. Means are
// computed by NCCL. There is no local team.
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
  // How long enqueuing one call can take, and how far another worker can lag behind.
  absl::Duration timeout = absl::Minutes(5);
  // How often the watchdog polls NCCL.
  absl::Duration watch_interval = absl::Milliseconds(20);
  // Whether collectives can be captured into CUDA graphs. Captured collectives use separate NCCL
  // communicators.
  bool can_be_captured = false;
  // Whether sums are computed in a fixed order: NCCL then uses its ring algorithm, not in-switch
  // reductions.
  bool deterministic = false;
  // The network device that workers connect through; if empty, NCCL chooses it.
  std::string network_device = "";
};

// Returns InvalidArgument if NCCL_COMM_ID is set: NCCL would then connect through an address that
// nothing has authenticated. Returns OK in a build without CUDA.
absl::Status CheckNcclEnvironment();

// Creates the communicators of `local_ranks`, each for use by one thread. World rank local_ranks[i]
// runs on CUDA device `gpus[i]`. `workers` is null if the job has a single worker; otherwise it
// must outlive the communicators, and this function uses its OnFailure until it returns. Returns
// InvalidArgument if a GPU is named twice, which NCCL does not support, or if CheckNcclEnvironment
// fails; DeadlineExceeded if the other ranks have not connected by `deadline`; the failure that
// another worker reports before then; Unimplemented in a build without CUDA.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectNccl(
    const Topology& topology, absl::Span<const int> local_ranks, absl::Span<const int> gpus,
    WorkerGroup* workers, MonotonicTime deadline, const NcclOptions& options = {});

// Returns the allocator of memory that NCCL's collectives access fastest, once the memory is
// registered with their communicators. Null in a build without CUDA.
const CollectiveMemory* NcclMemory();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_NCCL_NCCL_COMMUNICATOR_H_
