// SPDX-License-Identifier: Apache-2.0
//
// The supervisor of one worker: a separate process between the host's supervisor and the worker. As
// a subreaper, it can find every descendant of its worker, even if a process in between has ended.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_WORKER_SUPERVISOR_H_
#define MIRRORFLOW_TOOLS_LAUNCH_WORKER_SUPERVISOR_H_

#include "absl/status/status.h"
#include "tools/launch/launch.pb.h"

namespace mirrorflow {

// Starts the worker, forwards its output and exit code as events on standard output, and leaves
// none of its descendants running. Takes signals for the worker as orders from standard input until
// the worker has ended. Ends the worker when standard input ends.
absl::Status SuperviseWorker(const launch::Start& start);

// Returns the end event of a worker that could not be started.
launch::Event NotStarted(const absl::Status& why);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_WORKER_SUPERVISOR_H_
