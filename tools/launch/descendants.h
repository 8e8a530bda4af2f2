// SPDX-License-Identifier: Apache-2.0
//
// The processes that descend from this one. As a subreaper, it becomes the parent of those whose
// own parent ends, so none of them is lost.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_DESCENDANTS_H_
#define MIRRORFLOW_TOOLS_LAUNCH_DESCENDANTS_H_

#include <sys/types.h>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace mirrorflow {

void BecomeSubreaper();
void SignalDescendants(int signal);
// Only those that have a handler for the signal, which would end the others.
void SignalDescendantsThatCatch(int signal);
// Signals a process that the caller has found as a child of `parent`, a descendant or this process.
// Returns false, without a signal, if the process has ended: its number may have been reused.
bool SignalChildOf(pid_t parent, pid_t process, int signal);
// Kills all descendants except the children in `kept` and their descendants, and waits at most
// `timeout` until they have ended.
void KillDescendants(absl::Span<const pid_t> kept = {}, absl::Duration timeout = absl::Seconds(5));

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_DESCENDANTS_H_
