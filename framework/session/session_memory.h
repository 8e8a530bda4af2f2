// SPDX-License-Identifier: Apache-2.0
//
// What a session takes of the machine's memory, found out before it is taken. ResourceExhausted
// says what is the largest part, how much is asked for and how much is allowed.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_SESSION_MEMORY_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_SESSION_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/variable_layout.h"

namespace mirrorflow {

// The variables of `replicas` replicas.
absl::Status CheckVariableMemory(const VariableLayout& layout, size_t replicas, int64_t max_bytes);

// These, and a step whose plan for each replica is given: its constants, what it computes, and
// copies of what it fetches.
absl::Status CheckStepMemory(const VariableLayout& layout,
                             absl::Span<const std::shared_ptr<const Plan>> plans,
                             int64_t max_bytes);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_SESSION_MEMORY_H_
