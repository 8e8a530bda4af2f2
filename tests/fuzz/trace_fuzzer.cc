// SPDX-License-Identifier: Apache-2.0
//
// Reads a trace and makes a step's chart from it, or rejects it.
#include <string>

#include "framework/core/status.h"
#include "tests/fuzz/run_page.h"
#include "tools/report/read_run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mirrorflow;
  const absl::StatusOr<StepTimeline> timeline =
      ReadStepTimeline(std::string(reinterpret_cast<const char*>(data), size));
  if (!timeline.ok()) {
    MF_CHECK(absl::IsInvalidArgument(timeline.status()));
    return 0;
  }
  for (const TimelineSpan& span : timeline->spans) {
    MF_CHECK(span.row >= 0 && span.row < static_cast<int>(timeline->rows.size()));
    MF_CHECK(span.kind >= 0 && span.kind < static_cast<int>(timeline->kinds.size()));
  }
  RunData run;
  run.timeline = *timeline;
  CheckPageOf(run);
  return 0;
}
