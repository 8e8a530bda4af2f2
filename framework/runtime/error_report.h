// SPDX-License-Identifier: Apache-2.0
//
// How a process reports the error that ends it: a line on standard error for people, and a JSON
// object for launchers in the file that $MIRRORFLOW_ERROR_FILE names.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_ERROR_REPORT_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_ERROR_REPORT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace mirrorflow {

// The exit code of a worker that ends because of another one, or of the network.
inline constexpr int kClusterExitCode = 4;

// Attaches facts for the error file to an error: the latest collectives, a JSON array, and the
// stack of the thread that noticed the error, as CaptureStack returns it.
absl::Status WithDetails(absl::Status status, std::string collectives_json, std::string stack);

// Writes `ERROR <CODE> <where>: <what>` to standard error, one line for each error if the message
// has several, and the error file. `is_victim`: another worker has caused the error. `stack`: of
// all threads; empty: the one that is attached to the status, if any.
//
// The fields of the file are those of torchelastic's error files, as far as they apply: message,
// code, node, rank, timestamp_us, stack, collectives and, for a victim, cause.
void ReportError(const absl::Status& status, bool is_victim, absl::string_view stack = "");

// Ends a process that hangs: reports `why` with the stacks of all threads, and exits at once.
[[noreturn]] void EndHangingProcess(const absl::Status& why, int exit_code);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_ERROR_REPORT_H_
