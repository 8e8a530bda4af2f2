// SPDX-License-Identifier: Apache-2.0
//
// Lets an operator ask a process what it is doing, without disturbing it. If a program calls
//
//   MF_RETURN_IF_ERROR(StateReport::LogOnSignal());
//
// early in its main function, then `kill -USR1 PROCESS` logs the progress of its sessions and, in
// the process that runs the coordination service, the state of all workers.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_STATE_REPORT_H_
#define MIRRORFLOW_FRAMEWORK_CORE_STATE_REPORT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace mirrorflow {

// Registers one source of report lines for as long as this object exists.
class StateReport {
 public:
  // Returns lines to log; the first line is a summary. Must be callable from any thread at any
  // time.
  using Lines = std::function<std::vector<std::string>()>;

  explicit StateReport(Lines lines);
  // Blocks until a call in progress has returned.
  ~StateReport();
  StateReport(const StateReport&) = delete;
  StateReport& operator=(const StateReport&) = delete;

  // Logs the lines of all reports, oldest report first.
  static void LogAll();
  // Returns the first line of each report.
  static std::vector<std::string> Summary();
  // Makes SIGUSR1 call LogAll, on a separate thread. Call it early in main: until then, the signal
  // ends the process. Later calls have no effect. Returns the system's error if the handler cannot
  // be installed.
  static absl::Status LogOnSignal();

 private:
  const Lines lines_;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_STATE_REPORT_H_
