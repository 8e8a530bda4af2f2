// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_FRAMEWORK_SESSION_PREPARED_STEP_H_
#define MIRRORFLOW_FRAMEWORK_SESSION_PREPARED_STEP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/compiler/compilation.h"

namespace mirrorflow {

class Session;

// A prepared step, with its signature in terms of the session's own graph.
struct PreparedStep {
  size_t index = 0;  // in the session's list of prepared steps
  StepSignature signature;
  // Whether a run may write variables. Starts as the result of ShowsWrites, and becomes true if a
  // variant of the step turns out to write a variable.
  std::atomic<bool> writes{false};
  std::atomic<Session*> session{nullptr};  // null once the session is destroyed
  std::atomic<bool> has_run{false};
  std::atomic<int64_t> host_time_ns{0};  // returned by Step::host_time
};

// Maps the arguments of Session::Prepare to `graph`, a clone of the caller's graph. Returns
// InvalidArgument if an argument belongs to another graph; the error names the argument.
absl::StatusOr<StepSignature> ResolveSignature(const Graph& graph, absl::Span<const Output> feeds,
                                               absl::Span<const Output> fetches,
                                               absl::Span<const Operation> targets);

// Returns whether the step runs a node that writes a variable. Ignores nodes inside the graph's
// functions.
bool ShowsWrites(const StepSignature& signature);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_SESSION_PREPARED_STEP_H_
