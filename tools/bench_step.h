// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench step`: how long a training step takes, here and in other frameworks.
#ifndef MIRRORFLOW_TOOLS_BENCH_STEP_H_
#define MIRRORFLOW_TOOLS_BENCH_STEP_H_

#include <string>
#include <vector>

#include "tools/bench_report.h"
#include "tools/bench_training.h"

namespace mirrorflow {

// What was measured of a case.
struct StepRounds {
  Rounds rounds;
  std::vector<Implementation> sides;  // ours first
};

// Measures the case here and by `peers` (tensorflow, torch, jax), in turns. All start with the same
// weights and the same batch, and their first losses must agree: FailedPrecondition otherwise.
absl::StatusOr<StepRounds> MeasureStep(const TrainingCase& training,
                                       const std::vector<std::string>& peers);

// The command: the case that the flags name.
absl::Status BenchStep(Report* report);
// What its flags can get wrong.
absl::Status CheckStepFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_STEP_H_
