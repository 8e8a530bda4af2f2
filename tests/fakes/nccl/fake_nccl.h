// SPDX-License-Identifier: Apache-2.0
//
// A fake of NCCL, linked together with the fake of the CUDA runtime. Ranks are threads of this
// process, and can belong to several workers: all ranks with the same unique id connect.
// Collectives with an aborted rank never end. The fake reports misuse that makes NCCL hang or that
// NCCL does not report:
//  * ranks whose collectives differ in order, count, type or reduction;
//  * several threads that use one communicator;
//  * ranks that one thread connects outside a group, or that connect twice;
//  * an NCCL_COMM_ID in the environment;
//  * registered memory that NCCL did not allocate;
//  * communicators with both captured and eager collectives;
//  * aborts that wait for graphs that are not destroyed;
//  * calls while an earlier call is in progress.
#ifndef MIRRORFLOW_TESTS_FAKES_NCCL_FAKE_NCCL_H_
#define MIRRORFLOW_TESTS_FAKES_NCCL_FAKE_NCCL_H_

#include <nccl.h>

#include <string>

#include "absl/status/status.h"

namespace mirrorflow {

struct FakeNcclOptions {
  // Collective `failing_collective` (counted from 0) of rank `failing_rank` fails after it is
  // enqueued. If `failing_rank` is -1, none fails.
  int failing_rank = -1;
  int failing_collective = 0;
  // All captured collectives of `failing_rank` fail in replay `failing_replay` of their graph.
  int failing_replay = -1;
  // Whether connecting never completes.
  bool connecting_hangs = false;
  // Connecting fails immediately on this rank, or on no rank if -1.
  int unconnectable_rank = -1;
  // Whether several threads can use a rank, one after another: for example, the threads that run a
  // worker in a test.
  bool threads_may_change = false;
};

// Clears recorded misuse and counters, and sets `options`. Requires that no communicator exists.
void ResetFakeNccl(const FakeNcclOptions& options = {});

// Returns the first misuse that real NCCL would not have tolerated; OK if there is none.
absl::Status NcclMisuse();
// Returns the number of memory registrations since the last reset.
int NumNcclRegistrations();
// Returns the number of collectives that ranks have enqueued since the last reset.
int NumNcclCollectives();
// Returns how many of these collectives were enqueued on streams of the highest priority.
int NumUrgentNcclCollectives();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_FAKES_NCCL_FAKE_NCCL_H_
