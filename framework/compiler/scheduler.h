// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: one order of all nodes of a program, legal for one thread. A collective starts as soon
// as its operands are ready, in the program's order, and what it waits for runs first; what depends
// on it runs only when a later collective is on its way too, or nothing else is left to do, so that
// a rank seldom waits for the others: an update's gate (a finite loss) must not hold up the
// collectives that wait for it, so what the next collective alone waits for runs after the next
// long kernel. What comes after a collective (updates) runs before what does not, which frees
// gradients while they are in the cache.
#ifndef MIRRORFLOW_FRAMEWORK_COMPILER_SCHEDULER_H_
#define MIRRORFLOW_FRAMEWORK_COMPILER_SCHEDULER_H_

#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

// `fails_on_data` holds the nodes whose kernels can fail on what is in their inputs: they run
// before every write, on every replica (a collective that the write waits for starts after them;
// where there is none, the plan has a barrier). Whether a kernel can fail must not depend on
// shapes. `is_long`: whether the node takes as long as replicas may be apart (a product, a
// convolution).
absl::StatusOr<std::vector<Node*>> ScheduleNodes(const Compilation& c,
                                                 const std::vector<Node*>& fails_on_data,
                                                 absl::FunctionRef<bool(const Node&)> is_long);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_COMPILER_SCHEDULER_H_
