// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench step`: measures the time of a training step, here and in other frameworks.
#ifndef MIRRORFLOW_TOOLS_BENCH_STEP_H_
#define MIRRORFLOW_TOOLS_BENCH_STEP_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/bench_report.h"
#include "tools/bench/training_case.h"
#include "tools/bench/worker_hosts.h"

namespace mirrorflow {

// The measurements of a case. If the case leaves out passes, our second side runs without them; if
// it has several workers, our second side is one process with the same replicas.
struct StepRounds {
  Rounds rounds;
  std::vector<Implementation> sides;            // ours first
  std::map<std::string, absl::Status> missing;  // peers that could not be measured, and why
};

// Measures the case here and with `peers` (tensorflow, torch, jax), in turns. All start with the
// same weights and the same batch. The workers of each side run on `hosts`. A peer that does not
// start, or whose first losses differ from ours (FailedPrecondition), is listed in `missing`.
absl::StatusOr<StepRounds> MeasureStep(const TrainingCase& training,
                                       const std::vector<std::string>& peers,
                                       const WorkerHosts& hosts = {});

// Implements the command, for the case that the flags name.
absl::Status BenchStep(Report* report);
// Checks the flags of BenchStep.
absl::Status CheckStepFlags();
absl::Status CheckStepWorkers();
absl::Status CheckStepSides();  // those of the workers, and --peers

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_STEP_H_
