// SPDX-License-Identifier: Apache-2.0
//
// How much of a step is communication that nothing hides, out of the step's own trace.
#ifndef MIRRORFLOW_TOOLS_BENCH_OVERLAP_H_
#define MIRRORFLOW_TOOLS_BENCH_OVERLAP_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/runtime/trace.h"
#include "tools/bench_report.h"
#include "tools/bench_training.h"

namespace mirrorflow {

// The share of a step's time in which the replicas' compute lanes start collectives, wait for them
// or work off their part of them: the mean over replicas.
double ExposedShare(const TraceWriter& trace);

// That of training steps (C15).
absl::Status BenchExposed(const TrainingCase& training, Report* report);

// A typical step, as a chart: by replica what its compute lane does, and its collectives in flight.
absl::StatusOr<std::string> StepTimeline(const TrainingCase& training);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_OVERLAP_H_
