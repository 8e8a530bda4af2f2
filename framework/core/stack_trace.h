// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_CORE_STACK_TRACE_H_
#define MIRRORFLOW_FRAMEWORK_CORE_STACK_TRACE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// The return addresses of this thread, for StackText of the same process. Fast: looking up the
// names of functions reads the symbols of files.
std::string CaptureStack();
// The functions of a captured stack, the innermost first, a line each; empty for other texts.
std::string StackText(absl::string_view captured);

// The stacks of all threads of the process, each after a line with its name. Interrupts them by a
// real-time signal, and waits at most a fraction of a second for each: for a process that hangs and
// is about to end. Not reentrant.
std::string StacksOfAllThreads();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_STACK_TRACE_H_
