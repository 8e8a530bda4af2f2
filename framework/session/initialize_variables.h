// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_INITIALIZE_VARIABLES_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_INITIALIZE_VARIABLES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/graph/graph.h"
#include "framework/runtime/replica.h"
#include "framework/session/step_compiler.h"
#include "framework/session/variable_store.h"

namespace mirrorflow {

// Initialises the variables of `graph`. Runs the initialisers in dependency order, each of them
// once, on `replica`, so that every replica gets the same bits. `timeout` limits each step.
absl::Status InitializeVariables(const Graph& graph, const StepCompiler& compiler, Replica& replica,
                                 uint64_t seed, absl::Duration timeout, VariableStore& store);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_INITIALIZE_VARIABLES_H_
