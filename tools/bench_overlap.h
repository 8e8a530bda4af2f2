// SPDX-License-Identifier: Apache-2.0
//
// Measures how much of a step is exposed communication, from the step's own trace.
#ifndef MIRRORFLOW_TOOLS_BENCH_OVERLAP_H_
#define MIRRORFLOW_TOOLS_BENCH_OVERLAP_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/runtime/trace.h"
#include "tools/bench_report.h"
#include "tools/bench_training.h"

namespace mirrorflow {

// Returns the share of a step's time in which the compute lanes start collectives, wait for them or
// do their part of them: the mean over replicas.
double ExposedShare(const TraceWriter& trace);

// Measures the ExposedShare of training steps (C15).
absl::Status BenchExposed(const TrainingCase& training, Report* report);

// Draws a typical step as a chart: for each replica the work of its compute lane, and its
// collectives in flight.
absl::StatusOr<std::string> StepTimeline(const TrainingCase& training);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_OVERLAP_H_
