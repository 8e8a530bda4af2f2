// SPDX-License-Identifier: Apache-2.0
//
// Checks that a session's workers agree before they run a step together, and copies worker 0's
// choices to the other workers.
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_AGREE_ON_STEPS_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_AGREE_ON_STEPS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/core/monotonic_time.h"
#include "framework/runtime/run_progress.h"
#include "framework/runtime/topology.h"
#include "framework/runtime/tuning_table.h"
#include "framework/session/prepared_step.h"
#include "framework/session/session_options.h"
#include "framework/session/step_cache.h"
#include "framework/session/variable_store.h"
#include "framework/workers/connection.h"
#include "framework/workers/run_counters.h"

namespace mirrorflow {

// Checks that all workers have the same topology and variable layout.
absl::Status AgreeOnVariables(const VariableLayout& layout, const LinkCosts& link,
                              const Connection& connection, MonotonicTime deadline);

// Checks that all workers have compiled the same step, and that the state that its runs depend on
// is equal. Each call needs a new `name`.
absl::Status AgreeOnStep(const PreparedStep& step, const CompiledStep& compiled,
                         const VariableStore& variables, const RunCounters& counters,
                         const SessionOptions& options, const Connection& connection,
                         absl::string_view name, MonotonicTime deadline);

// Returns worker 0's `seed`.
absl::StatusOr<uint64_t> TakeSeedOfWorker0(uint64_t seed, WorkerGroup& workers,
                                           MonotonicTime deadline);

// Copies worker 0's kernel choices into `tuning`. Call it after the agreement called `agreement`.
absl::Status TakeTuningOfWorker0(absl::string_view agreement, WorkerGroup& workers,
                                 MonotonicTime deadline, TuningTable& tuning);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_AGREE_ON_STEPS_H_
