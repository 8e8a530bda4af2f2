// SPDX-License-Identifier: Apache-2.0
//
// Makes text from files and other processes safe to print. A control character could move the
// cursor, change how the terminal shows other lines, or make it answer as if the user had typed.
#ifndef MIRRORFLOW_FRAMEWORK_CORE_TERMINAL_H_
#define MIRRORFLOW_FRAMEWORK_CORE_TERMINAL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns one line of a message with all control characters escaped: those of ASCII and of Unicode
// (U+0080 to U+009F), and the bytes 80 to 9F in invalid UTF-8.
std::string ForTerminal(absl::string_view line);
// Prints a line, escaped in this way, to standard output. PrintErrorLine
// (framework/core/log_line.h) prints to standard error.
void PrintLine(absl::string_view line);

// Escapes the output of a user's own program, but lets its progress bars and colours work: keeps
// tabs, \n, \r, and the sequences that select a colour or erase within the line. Appends a reset to
// each line that leaves a colour selected, because that could hide all text that follows.
std::string OutputForTerminal(absl::string_view text);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_TERMINAL_H_
