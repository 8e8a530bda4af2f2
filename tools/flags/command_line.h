// SPDX-License-Identifier: Apache-2.0
//
// Command lines of our programs: Abseil flags, with errors as Status in place of Abseil's exit, and
// the one form in which a program ends in an error.
#ifndef MIRRORFLOW_TOOLS_FLAGS_COMMAND_LINE_H_
#define MIRRORFLOW_TOOLS_FLAGS_COMMAND_LINE_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mirrorflow {

// Exit codes of all our programs.
enum ExitCode {
  kExitOk = 0,
  kExitUsage = 2,     // flags, configuration
  kExitBadInput = 3,  // a file, a graph, data
  kExitResources = 5,
  kExitNumeric = 6,  // the loss is not finite
  kExitInternal = 70,
};

struct CommandLine {
  std::vector<std::string> positional;
  bool help = false;  // --help was given
};

// Sets the program's ABSL_FLAGs from `--name=value`, `--name value`, `--name` and `--noname`
// (bools); `--` ends the flags. InvalidArgument names an unknown flag (and the nearest known one)
// or a value that does not parse.
//
// From here on a file that grows beyond its limit, or output that nobody reads any more, is an
// error of the call and no longer the end of the process, which would leave half of a file behind;
// and memory that runs out ends it with kExitResources and no longer by a signal.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, char** argv);

// One line a flag: name, type's default, help text. Of flags defined in files whose name contains
// `file`.
std::string FlagHelp(absl::string_view file);

// InvalidArgument that names the flag if `value` is not in [least, most].
absl::Status CheckFlagRange(absl::string_view flag, int64_t value, int64_t least,
                            int64_t most = std::numeric_limits<int64_t>::max());
// An error that names the flag if nothing can be written to `path`; empty: nothing will be.
absl::Status CheckOutputFlag(absl::string_view flag, absl::string_view path);

// Writes `ERROR <CODE> <where>: <what>` on standard error, a line an error if the message has
// several, and returns the exit code: `code`, unless the status knows better (resources, internal).
int ExitWithError(const absl::Status& status, ExitCode code);
// Exit code 0, or that of an error if standard output did not take all that was printed.
int FlushOutput();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_FLAGS_COMMAND_LINE_H_
