// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_TOOLS_REPORT_STEP_TIMELINE_H_
#define MIRRORFLOW_TOOLS_REPORT_STEP_TIMELINE_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/report/run_data.h"

namespace mirrorflow {

// Reads a trace (TraceWriter) and returns the step of median length. Steps of several processes
// with the same name are one. InvalidArgument if the text is not a trace, or has no step.
absl::StatusOr<StepTimeline> ReadStepTimeline(const std::string& json);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_REPORT_STEP_TIMELINE_H_
