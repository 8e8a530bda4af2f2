// SPDX-License-Identifier: Apache-2.0
//
// Computes the memory that a session needs and checks it against the limit before anything is
// allocated. The error (ResourceExhausted) names the largest item, the bytes needed and the limit.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_SESSION_MEMORY_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_SESSION_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {

// Returns the size in bytes of the variables on `replicas` replicas.
int64_t VariableBytes(const VariableLayout& layout, size_t replicas);

// Returns how many bytes a step's fetches occupy on the host.
int64_t FetchBytes(const Plan& plan);

// Checks the memory of the variables on `replicas` replicas.
absl::Status CheckVariableMemory(const VariableLayout& layout, size_t replicas, int64_t max_bytes);

// Checks the total memory of the variables and of a step's constants, intermediate values and
// fetches on the host. `plans` holds the step's plan for each replica.
absl::Status CheckStepMemory(const VariableLayout& layout,
                             absl::Span<const std::shared_ptr<const Plan>> plans,
                             int64_t max_bytes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_SESSION_MEMORY_H_
