// SPDX-License-Identifier: Apache-2.0
//
// The communicator of logical GPUs: ranks whose devices all share one physical GPU, where NCCL
// cannot run. It lets users try out multi-GPU programs on a single GPU.
//
// The contract of Communicator applies, with these additions. Lanes belong to the ranks' CUDA
// devices. Values are reduced in rank order, with the same bits as in a local team. Start blocks
// until the host threads of all ranks have called the same Start, then enqueues. Finish and status
// only report whether the communicator still works.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DEVICE_COPY_DEVICE_COPY_COMMUNICATOR_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DEVICE_COPY_DEVICE_COPY_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/runtime/communicator.h"

namespace mirrorflow {

// Creates the communicators of ranks 0 … world_size-1 on CUDA device `gpu`, each for use by one
// thread. `timeout` limits how long Start waits for the other ranks before it fails all of them.
// Returns InvalidArgument unless there are 1 to 16 ranks, and Unimplemented in a build without
// CUDA.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> CreateDeviceCopyCommunicators(
    int world_size, int gpu, absl::Duration timeout = absl::Minutes(5));

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_DEVICE_COPY_DEVICE_COPY_COMMUNICATOR_H_
