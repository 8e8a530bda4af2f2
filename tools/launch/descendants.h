// SPDX-License-Identifier: Apache-2.0
//
// Receives signals as input, and signals and kills the descendants of this process. As a subreaper,
// this process becomes the parent of descendants whose own parent ends, so it can always find them.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_DESCENDANTS_H_
#define MIRRORFLOW_TOOLS_LAUNCH_DESCENDANTS_H_

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace mirrorflow {

// Blocks the signals. Returns a signalfd for them.
absl::StatusOr<int> BlockSignals(absl::Span<const int> signals);

void BecomeSubreaper();
void SignalDescendants(int signal);
// Signals only the descendants that have a handler for the signal, because it would end the others.
void SignalDescendantsThatCatch(int signal);
// Signals `process`, which the caller has found as a child of `parent`. `parent` is a descendant or
// this process. Returns false and sends nothing if the process has ended: its id may have been
// reused.
bool SignalChildOf(pid_t parent, pid_t process, int signal);
// Kills all descendants except the children in `kept` and their descendants. Waits up to `timeout`
// for them to end.
void KillDescendants(absl::Span<const pid_t> kept = {}, absl::Duration timeout = absl::Seconds(5));

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_DESCENDANTS_H_
