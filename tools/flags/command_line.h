// SPDX-License-Identifier: Apache-2.0
//
// Command lines and exit codes of Mirrorflow's programs. Parses Abseil flags, but returns a Status
// where Abseil exits, and reports the error that ends a program in a common format.
#ifndef MIRRORFLOW_TOOLS_FLAGS_COMMAND_LINE_H_
#define MIRRORFLOW_TOOLS_FLAGS_COMMAND_LINE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/runtime/error_report.h"

namespace mirrorflow {

// Exit codes of all Mirrorflow programs.
enum ExitCode {
  kExitOk = 0,
  kExitUsage = 2,                   // wrong flags or configuration
  kExitBadInput = 3,                // a bad file, graph or dataset
  kExitCluster = kClusterExitCode,  // caused by another worker or job; see ExitCodeOf
  kExitResources = 5,
  kExitNumeric = 6,  // see IsNumericError
  kExitInternal = 70,
  kExitPreempted = 75,     // ended on request; resumes when restarted
  kExitInterrupted = 130,  // ended by SIGINT; resumes when restarted
};

struct CommandLine {
  std::vector<std::string> positional;
  std::vector<std::string> flags;  // names of the flags on the command line
  bool help = false;               // whether --help was given
};

// Sets the program's ABSL_FLAGs from `--name=value`, `--name value`, and, for bools, `--name` and
// `--noname`; `--` ends the flags. Returns InvalidArgument, naming the flag, if a flag is unknown
// (with a similar flag as a hint) or a value does not parse.
//
// Also makes the process robust against its environment:
//  - A write beyond the file size limit, or to a pipe without a reader, fails instead of killing
//    the process, which could leave a partial file.
//  - When memory or threads run out, the process exits with kExitResources instead of being killed
//    by a signal.
//  - Writes to a standard stream that was closed at the start fail. They do not go to the next
//    file that the program opens.
//  - A stack that is too small is enlarged. Returns ResourceExhausted if the hard limit forbids
//    that.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, char** argv);

// Returns whether `flags`, a space-separated list, contains the flag: either its name or a part of
// the path of the file that defines it, such as `tools/launch/`.
bool IsOneOf(absl::string_view flag, absl::string_view flags);
// Returns the name, default and help text of each flag in `flags` (see IsOneOf).
std::string FlagHelp(absl::string_view flags);

// Returns InvalidArgument, naming the command, unless it has `least` to `most` arguments.
// `expected` describes them.
absl::Status CheckArguments(absl::string_view command, const std::vector<std::string>& args,
                            size_t least, size_t most, absl::string_view expected);
// Returns InvalidArgument, naming the flag, if `value` is not in [least, most].
absl::Status CheckFlagRange(absl::string_view flag, int64_t value, int64_t least,
                            int64_t most = std::numeric_limits<int64_t>::max());
// Returns the integers that `values`, the value of a flag, lists, or InvalidArgument, naming the
// flag, if one is malformed or not in [least, most].
absl::StatusOr<std::vector<int64_t>> ParseFlagIntegers(
    absl::string_view flag, const std::vector<std::string>& values, int64_t least,
    int64_t most = std::numeric_limits<int64_t>::max());
// Returns InvalidArgument, naming the flag, if `value` is less than `least`.
absl::Status CheckFlagDuration(absl::string_view flag, absl::Duration value, absl::Duration least);
// Returns InvalidArgument with `what`, naming the flag, if one of `flags` does not have its default
// value.
absl::Status CheckDefaults(absl::Span<const absl::string_view> flags, absl::string_view what);
// Returns InvalidArgument, naming the flag, if `value` is not one of `choices`.
absl::Status CheckChoice(absl::string_view flag, absl::string_view value,
                         absl::Span<const absl::string_view> choices);
// Returns an error that names the flag if `path` cannot be written. An empty path means no output.
absl::Status CheckOutputFlag(absl::string_view flag, absl::string_view path);

// Writes `ERROR <CODE> <where>: <what>` to standard error, with one line per error in the message,
// and as JSON to the file in $MIRRORFLOW_ERROR_FILE, if set. Returns the exit code. Numeric,
// resource and internal errors and timeouts have separate exit codes, because neither flags nor
// malformed input can cause them; for all other errors, the exit code is `code`.
int ExitWithError(const absl::Status& status, ExitCode code);
// Flushes standard output. Returns kExitOk, or an error's exit code if output to standard output or
// standard error was lost.
int FlushOutput();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_COMMAND_LINE_H_
