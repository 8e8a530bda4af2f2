// SPDX-License-Identifier: Apache-2.0
//
// Finds the worker that failed first and formats the failure report.
#ifndef MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_REPORT_H_
#define MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_REPORT_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace mirrorflow {

// How a worker ended.
struct WorkerEnd {
  int worker = 0;
  std::string host;     // empty for this machine
  int64_t process = 0;  // 0 if it was not started
  std::string gpu;      // its CUDA_VISIBLE_DEVICES, if it has one GPU
  absl::Time time;
  absl::Duration after;  // since the attempt began
  int exit_code = 0;     // 128 + signal if a signal ended it
  int signal = 0;
  bool asked_to_end = false;  // whether the launcher asked it to end
  std::string message;        // why it ended, if known
  bool is_victim = false;     // whether the message blames another worker or a timeout
};

// Reads a worker's message from `text`, the JSON that it wrote to $MIRRORFLOW_ERROR_FILE. Does
// nothing if `text` is invalid.
void TakeErrorFile(const std::string& text, WorkerEnd* end);

// Returns the worker whose failure made the job fail: the first that failed by itself. Prefers a
// worker that did not merely notice another's failure. Null if none failed.
const WorkerEnd* FirstFailure(absl::Span<const WorkerEnd> ends);

// Returns the host that made the job fail: the host of the first failure, unless that worker is
// only a victim. If all failures are victims, returns the host of the workers that did not end by
// themselves, such as a worker that hangs. Empty if these are on several hosts or do not exist, or
// if the host is this machine.
std::string HostAtFault(absl::Span<const WorkerEnd> ends);

// Describes how a worker ended in one line: `worker 1 on host b: signal 9 (KILL): MESSAGE`.
std::string EndText(const WorkerEnd& end);

// Returns whether the workers stopped with kExitPreempted because their scheduler or the launcher
// asked them to, and will continue when restarted. If the launcher got SIGTERM, also accepts
// workers that the signal killed or kept from starting, and victims of the other workers' ends.
bool HasStopped(absl::Span<const WorkerEnd> ends, bool launcher_was_asked);
// Returns a one-line report about a stopped job.
std::string StopReport(absl::Span<const WorkerEnd> ends, absl::Duration after);

// Returns the failure report, which has several lines.
std::string FailureReport(const WorkerEnd& first, absl::Span<const WorkerEnd> ends,
                          absl::Duration after, const std::deque<std::string>& last_lines);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_REPORT_H_
