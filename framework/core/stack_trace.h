// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_CORE_STACK_TRACE_H_
#define MIRRORFLOW_FRAMEWORK_CORE_STACK_TRACE_H_

#include <string>

namespace mirrorflow {

// The functions that this thread is in, the innermost first, a line each.
std::string StackOfThisThread();

// The same for all threads of the process, each after a line with its name. Interrupts them by a
// real-time signal, and waits at most a fraction of a second for each: for a process that hangs and
// is about to end. Not reentrant.
std::string StacksOfAllThreads();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_CORE_STACK_TRACE_H_
