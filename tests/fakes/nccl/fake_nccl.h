// SPDX-License-Identifier: Apache-2.0
//
// A fake of NCCL, linked together with the fake of the CUDA runtime; ranks are threads of this
// process, which may belong to several workers: all that share a unique id meet. It reports misuse
// that NCCL answers with a hang or not at all: ranks whose collectives differ in order, count, type
// or reduction; several threads that use one communicator; ranks that one thread connects outside a
// group, or that connect twice; a foreign NCCL_COMM_ID; registered memory that was not allocated
// for it; communicators with both captured and eager collectives; aborts that wait for graphs that
// are not destroyed; calls while an earlier one is in progress. Collectives with a rank that has
// been aborted never end.
#ifndef MIRRORFLOW_TESTS_FAKES_NCCL_FAKE_NCCL_H_
#define MIRRORFLOW_TESTS_FAKES_NCCL_FAKE_NCCL_H_

#include <nccl.h>

#include <string>

#include "absl/status/status.h"

namespace mirrorflow {

struct FakeNcclOptions {
  // Collective `failing_collective` (counted from 0) of rank `failing_rank` fails after it is
  // enqueued; -1: none fails.
  int failing_rank = -1;
  int failing_collective = 0;
  // The same for all captured collectives of this rank in replay `failing_replay` of their graph.
  int failing_replay = -1;
  // Connecting never completes.
  bool connecting_hangs = false;
  // Connecting fails on this rank at once; -1: on none.
  int unconnectable_rank = -1;
  // A rank may be used by one thread after another: those of a test that run the same worker.
  bool threads_may_change = false;
};

// Clears recorded misuse and counters, and sets `options`.
// REQUIRES: no communicator is left.
void ResetFakeNccl(const FakeNcclOptions& options = {});

// The first misuse that real NCCL would not have tolerated; OK if there is none.
absl::Status NcclMisuse();
// The number of memory registrations since the last reset.
int NumNcclRegistrations();
// The number of collectives that ranks have enqueued since the last reset.
int NumNcclCollectives();
// The number of those on streams of the highest priority.
int NumUrgentNcclCollectives();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FAKES_NCCL_FAKE_NCCL_H_
