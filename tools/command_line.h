// SPDX-License-Identifier: Apache-2.0
//
// Command lines of our programs: Abseil flags, with errors as Status in place of Abseil's exit, and
// the one form in which a program ends in an error.
#ifndef MIRRORFLOW_TOOLS_COMMAND_LINE_H_
#define MIRRORFLOW_TOOLS_COMMAND_LINE_H_

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
// (bools);
// `--` ends the flags. InvalidArgument names an unknown flag (and the nearest known one) or a value
// that does not parse.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, char** argv);

// One line a flag: name, type's default, help text. Of flags defined in files whose name contains
// `file`.
std::string FlagHelp(absl::string_view file);

// Writes `ERROR <CODE> <message>` on standard error and returns the exit code.
int ExitWithError(const absl::Status& status, ExitCode code);
// The exit code that the status' own code stands for, where the program knows no better.
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_COMMAND_LINE_H_
