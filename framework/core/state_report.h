// SPDX-License-Identifier: Apache-2.0
//
// Lets an operator ask a process what it is doing, without disturbing it. If its main begins with
//
//   MF_RETURN_IF_ERROR(StateReport::LogOnSignal());
//
// then `kill -USR1 PROCESS` logs where its sessions are and, in the process that serves the
// coordination service, where all workers are.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_STATE_REPORT_H_
#define MIRRORFLOW_FRAMEWORK_CORE_STATE_REPORT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace mirrorflow {

// A part of the process that has something to report, for as long as this object lives.
class StateReport {
 public:
  // Returns lines to log, of which the first summarizes the others. Called by any thread at any
  // time.
  using Lines = std::function<std::vector<std::string>()>;

  explicit StateReport(Lines lines);
  // Waits until a call in progress has returned.
  ~StateReport();
  StateReport(const StateReport&) = delete;
  StateReport& operator=(const StateReport&) = delete;

  // Logs the lines of all reports, in the order in which they were created.
  static void LogAll();
  // Returns the first line of each report.
  static std::vector<std::string> Summary();
  // From now on, calls LogAll, on a thread of its own, when the process receives SIGUSR1. Call it
  // early in main: until then, the signal ends the process. Has no effect after the first call.
  static absl::Status LogOnSignal();

 private:
  const Lines lines_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_STATE_REPORT_H_
