// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_TRACED_STEPS_H_
#define MIRRORFLOW_TOOLS_TRACED_STEPS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/session/session.h"

namespace mirrorflow {

// Runs steps for `budget`, but no fewer than 4 and no more than 100, of which the first replica has
// `plan`, adding them to `trace`. Returns how long each of the plan's instructions took when it
// took least, in nanoseconds; 0 where it was not dispatched.
absl::StatusOr<std::vector<double>> FastestInstructions(Session& session, Step& step,
                                                        absl::Span<const Tensor> feeds,
                                                        const Plan& plan, absl::Duration budget,
                                                        TraceWriter* trace);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_TRACED_STEPS_H_
