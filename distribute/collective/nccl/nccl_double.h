// SPDX-License-Identifier: Apache-2.0
//
// A double of NCCL, to be linked with that of the CUDA runtime: ranks are threads of this process.
// What NCCL answers with a hang, or not at all, this reports: ranks whose collectives differ in
// order, count, type or reduction; several threads that use one communicator; calls after an abort;
// ranks that one thread connects outside a group; memory that is registered but was not allocated
// for it; communicators of which some collectives are captured and others are not.
#ifndef MIRRORFLOW_DISTRIBUTE_COLLECTIVE_NCCL_NCCL_DOUBLE_H_
#define MIRRORFLOW_DISTRIBUTE_COLLECTIVE_NCCL_NCCL_DOUBLE_H_

#include <nccl.h>

#include <string>

#include "absl/status/status.h"

namespace mirrorflow {

struct NcclDoubleOptions {
  // The collective with this number, from 0, of this rank fails after it was enqueued.
  int failing_rank = -1;
  int failing_collective = 0;
  // Ranks never become connected.
  bool connecting_hangs = false;
};

// Forgets what was seen and all plants. Requires that no communicator is left.
void ResetNcclDouble(const NcclDoubleOptions& options = {});

// The first thing that real NCCL would not have borne.
absl::Status NcclMisuse();
// Pieces of memory that ranks have registered since the last Reset.
int NumNcclRegistrations();
// Collectives that ranks have enqueued since the last Reset.
int NumNcclCollectives();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_COLLECTIVE_NCCL_NCCL_DOUBLE_H_
