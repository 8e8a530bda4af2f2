// SPDX-License-Identifier: Apache-2.0
//
// How many bytes of memory a step uses, by class, for `mirrorflow explain --memory`.
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_STEP_MEMORY_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_STEP_MEMORY_H_

#include <cstdint>

#include "framework/runtime/plan.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {

// The bytes that one replica uses for a step. All variables of the graph count, even if the step
// does not use them.
struct StepMemory {
  int64_t variables = 0;  // without optimizer state
  int64_t optimizer_state = 0;
  int64_t gradients = 0;  // regions in which collectives reduce them
  int64_t constants = 0;
  int64_t forms = 0;    // copies of variables and constants in the layouts of kernels
  int64_t arena = 0;    // activations, other intermediate values and scratch memory
  int64_t scratch = 0;  // in the arena: the most that one kernel uses
  int64_t feeds = 0;    // memory of the caller
  int64_t fetches = 0;

  int64_t total() const {
    return variables + optimizer_state + gradients + constants + forms + arena + feeds + fetches;
  }
};

StepMemory MemoryOf(const Plan& plan, const VariableLayout& layout);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_STEP_MEMORY_H_
