// SPDX-License-Identifier: Apache-2.0
//
// Communicators whose ranks are processes, each of which is a worker. The test process has a proxy
// for each rank that forwards calls, together with the collective's memory.
#ifndef MIRRORFLOW_TESTS_CONFORMANCE_PROCESS_RANKS_H_
#define MIRRORFLOW_TESTS_CONFORMANCE_PROCESS_RANKS_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "distribute/cluster/join_options.h"
#include "tests/conformance/communicator_conformance.h"

namespace mirrorflow {

// Starts the processes and connects them. Each ends with its proxy. Must be called while this
// process has no other threads.
absl::StatusOr<Communicators> ConnectProcesses(int world_size, CollectiveKind kind,
                                               absl::Duration timeout);

// Returns the process of a rank, for tests that kill it.
pid_t ProcessOf(const Communicator& proxy);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_CONFORMANCE_PROCESS_RANKS_H_
