// SPDX-License-Identifier: Apache-2.0
//
// Command lines and exit codes of our programs. Parses Abseil flags, with errors as Status where
// Abseil would exit, and reports the error that ends a program in one common format.
#ifndef MIRRORFLOW_TOOLS_FLAGS_COMMAND_LINE_H_
#define MIRRORFLOW_TOOLS_FLAGS_COMMAND_LINE_H_

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/runtime/error_report.h"

namespace mirrorflow {

// Exit codes of all our programs.
enum ExitCode {
  kExitOk = 0,
  kExitUsage = 2,                   // flags, configuration
  kExitBadInput = 3,                // a file, a graph, data
  kExitCluster = kClusterExitCode,  // another worker or job; see ExitCodeOf
  kExitResources = 5,
  kExitNumeric = 6,  // see IsNumericError
  kExitInternal = 70,
  kExitPreempted = 75,     // asked to end, and goes on when it starts again
  kExitInterrupted = 130,  // the same, by SIGINT
};

struct CommandLine {
  std::vector<std::string> positional;
  std::vector<std::string> flags;  // names of the flags that were given
  bool help = false;               // --help was given
};

// Sets the program's ABSL_FLAGs from `--name=value`, `--name value`, `--name` and `--noname`
// (bools); `--` ends the flags. Returns InvalidArgument, naming the flag, for an unknown flag (with
// the nearest known one) or a value that does not parse.
//
// Also prepares the process for where it runs. A write beyond the limit on file sizes, or to a pipe
// without a reader, makes the call fail instead of killing the process, which would leave half of a
// file behind. When memory or threads run out, the process exits with kExitResources instead of by
// a signal. Writes to a standard stream that was closed fail, instead of reaching the next file
// that the program opens. A small stack grows, or is ResourceExhausted.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, char** argv);

// Returns whether `flags` contains the flag: its name, or a part of the path of the file that
// defines it, such as `tools/launch/`. Both are separated by spaces.
bool IsOneOf(absl::string_view flag, absl::string_view flags);
// Returns the name, default and help text of each flag that IsOneOf `flags`.
std::string FlagHelp(absl::string_view flags);

// Returns InvalidArgument, naming the flag, if `value` is not in [least, most].
absl::Status CheckFlagRange(absl::string_view flag, int64_t value, int64_t least,
                            int64_t most = std::numeric_limits<int64_t>::max());
// Returns InvalidArgument, naming the flag, if `value` is less than `least`.
absl::Status CheckFlagDuration(absl::string_view flag, absl::Duration value, absl::Duration least);
// Returns InvalidArgument, naming the flag, if `value` is none of `choices`.
absl::Status CheckChoice(absl::string_view flag, absl::string_view value,
                         std::initializer_list<absl::string_view> choices);
// Returns an error, naming the flag, if `path` cannot be written. An empty path means no output.
absl::Status CheckOutputFlag(absl::string_view flag, absl::string_view path);

// Writes `ERROR <CODE> <where>: <what>` to standard error, one line for each error if the message
// has several, and as JSON to the file that $MIRRORFLOW_ERROR_FILE names, if any. Returns the exit
// code: that of the status if it is a numeric, resource or internal error or a timeout, which
// neither flags nor the form of an input can cause, otherwise `code`.
int ExitWithError(const absl::Status& status, ExitCode code);
// Flushes standard output. Returns kExitOk, or the code of an error if not all of it, or of
// standard error, was written.
int FlushOutput();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_COMMAND_LINE_H_
