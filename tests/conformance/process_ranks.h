// SPDX-License-Identifier: Apache-2.0
//
// Communicators whose ranks run in separate processes, one worker each. For each rank, the test
// process has a proxy that forwards calls together with the contents of the collective's memory.
#ifndef MIRRORFLOW_TESTS_CONFORMANCE_PROCESS_RANKS_H_
#define MIRRORFLOW_TESTS_CONFORMANCE_PROCESS_RANKS_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/cluster/join_options.h"
#include "tests/conformance/communicator_conformance.h"

namespace mirrorflow {

// Starts the processes and connects them. A process ends when its proxy is destroyed. Requires that
// this process has no other threads.
absl::StatusOr<Communicators> ConnectProcesses(int world_size, CollectiveKind kind,
                                               absl::Duration timeout);

// Returns the process of a rank, for tests that kill it.
pid_t ProcessOf(const Communicator& proxy);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CONFORMANCE_PROCESS_RANKS_H_
