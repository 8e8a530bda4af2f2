// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_CORE_STACK_TRACE_H_
#define MIRRORFLOW_FRAMEWORK_CORE_STACK_TRACE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace mirrorflow {

// Returns the calling thread's return addresses, for StackText() in the same process. Fast, because
// it leaves symbolisation, which reads the symbol tables of files, to StackText().
std::string CaptureStack();
// Returns the functions of a captured stack, innermost first, one per line. Returns an empty string
// if `captured` is not a captured stack.
std::string StackText(absl::string_view captured);

// Returns the stacks of all threads in the process, each after a line with the thread's name.
// Interrupts the threads with a real-time signal and waits at most a fraction of a second for each.
// Meant for a process that hangs and is about to end. Not reentrant.
std::string StacksOfAllThreads();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_STACK_TRACE_H_
