// SPDX-License-Identifier: Apache-2.0
//
// Measures how much of a step is exposed communication.
#ifndef MIRRORFLOW_TOOLS_BENCH_OVERLAP_H_
#define MIRRORFLOW_TOOLS_BENCH_OVERLAP_H_

#include <string>

#include "absl/status/statusor.h"
#include "framework/runtime/trace.h"
#include "tools/bench/bench_report.h"
#include "tools/bench/network_namespaces.h"
#include "tools/bench/training_case.h"

namespace mirrorflow {

// Returns the share of a step's time in which the compute lanes start collectives, wait for them or
// do their part of them: the mean over replicas.
double ExposedShare(const TraceWriter& trace);

// Measures the ExposedShare of training steps (C15).
absl::Status BenchExposed(const TrainingCase& training, Report* report);

// Measures how much longer a step takes on two workers, in two namespaces, than with the same batch
// on one, in percent of a bare all-reduce of the gradients over the same link (C15b).
absl::Status BenchExposedOverTcp(const TrainingCase& training, const Link& link, Report* report);

// Draws a typical step as a chart: for each replica the work of its compute lane, and its
// collectives in flight.
absl::StatusOr<std::string> StepTimeline(const TrainingCase& training);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_OVERLAP_H_
