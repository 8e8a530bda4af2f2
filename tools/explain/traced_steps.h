// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_TRACED_STEPS_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_TRACED_STEPS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/runtime/plan.h"
#include "framework/runtime/trace.h"
#include "framework/session/session.h"

namespace mirrorflow {

// Runs `step` for `budget`, at least 4 and at most 100 times, and adds the runs to `trace`. `plan`
// is that of the first replica. Returns the shortest time of each of its instructions in
// nanoseconds; 0 for an instruction that was not dispatched.
absl::StatusOr<std::vector<double>> FastestInstructions(Session& session, Step& step,
                                                        absl::Span<const Tensor> feeds,
                                                        const Plan& plan, absl::Duration budget,
                                                        TraceWriter* trace);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_TRACED_STEPS_H_
