// SPDX-License-Identifier: Apache-2.0
//
// Which worker failed first, and the report about it.
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
  std::string host;     // empty: this machine
  int64_t process = 0;  // 0: not started
  std::string gpu;      // its CUDA_VISIBLE_DEVICES, if it has one GPU
  absl::Time time;
  absl::Duration after;  // since the attempt began
  int exit_code = 0;     // 128 + signal if a signal ended it
  int signal = 0;
  bool asked_to_end = false;  // by the launcher
  std::string message;        // why, as far as it is known
  bool is_victim = false;     // the message blames another worker, or a timeout
};

// Reads the message of a worker from what it has written to $MIRRORFLOW_ERROR_FILE (JSON), if that
// is valid.
void TakeErrorFile(const std::string& text, WorkerEnd* end);

// The worker whose failure made the job fail: the first that failed by itself, but rather not one
// that only noticed the failure of another. Null if none failed.
const WorkerEnd* FirstFailure(absl::Span<const WorkerEnd> ends);

// The host that made the job fail: that of the first failure, unless it is only a victim. If all
// failures are, that of the workers that did not end by themselves, such as one that hangs. Empty
// if they are on several hosts, if there are none, or for this machine.
std::string HostAtFault(absl::Span<const WorkerEnd> ends);

// How a worker ended, as one line: `worker 1 on host b: signal 9 (KILL): MESSAGE`.
std::string EndText(const WorkerEnd& end);

// Whether the workers have stopped because they were asked to, by their scheduler or by the
// launcher, and go on when they start again: with kExitPreempted. If the launcher got SIGTERM, they
// may also have died of it, have not been started because of it, or be victims of the others' ends.
bool HasStopped(absl::Span<const WorkerEnd> ends, bool launcher_was_asked);
// One line about such a job.
std::string StopReport(absl::Span<const WorkerEnd> ends, absl::Duration after);

// The report, several lines.
std::string FailureReport(const WorkerEnd& first, absl::Span<const WorkerEnd> ends,
                          absl::Duration after, const std::deque<std::string>& last_lines);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_LAUNCH_LAUNCH_REPORT_H_
