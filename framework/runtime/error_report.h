// SPDX-License-Identifier: Apache-2.0
//
// Reports the error that ends a process: as a line on standard error for people, and as a JSON
// object for launchers in the file that $MIRRORFLOW_ERROR_FILE names.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_ERROR_REPORT_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_ERROR_REPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

// The exit code of a worker that ends because of another worker or the network.
inline constexpr int kClusterExitCode = 4;

// Attaches details for the error file to an error: the latest collectives, as a JSON array, and the
// stack of the thread that noticed the error, as returned by CaptureStack.
absl::Status WithDetails(absl::Status status, std::string collectives_json, std::string stack);

// Writes `ERROR <CODE> <where>: <what>` to standard error, one line for each error if the message
// has several, and writes the error file. If `is_victim`, another worker caused the error. `stack`
// holds the stacks of all threads; if it is empty, the stack attached to the status is used, if
// any.
//
// The file uses the fields of torchelastic's error files where they apply: message, code, node,
// rank, timestamp_us, stack, collectives and, for a victim, cause.
void ReportError(const absl::Status& status, bool is_victim, absl::string_view stack = "");

// Ends a process that hangs: reports `why` with the stacks of all threads, and exits immediately.
[[noreturn]] void EndHangingProcess(const absl::Status& why, int exit_code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_ERROR_REPORT_H_
