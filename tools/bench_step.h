// SPDX-License-Identifier: Apache-2.0
//
// `mirrorflow bench step`: how long a training step takes, here and in other frameworks.
#ifndef MIRRORFLOW_TOOLS_BENCH_STEP_H_
#define MIRRORFLOW_TOOLS_BENCH_STEP_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench_report.h"
#include "tools/bench_training.h"

namespace mirrorflow {

// What was measured of a case. If it leaves passes out, our second side is without them.
struct StepRounds {
  Rounds rounds;
  std::vector<Implementation> sides;            // ours first
  std::map<std::string, absl::Status> missing;  // peers that could not be measured, and why
};

// Measures the case here and by `peers` (tensorflow, torch, jax), in turns. All start with the same
// weights and the same batch; a peer whose first losses are not ours is missing
// (FailedPrecondition), as one that does not start is.
absl::StatusOr<StepRounds> MeasureStep(const TrainingCase& training,
                                       const std::vector<std::string>& peers);

// The command: the case that the flags name.
absl::Status BenchStep(Report* report);
// What its flags can get wrong.
absl::Status CheckStepFlags();

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_STEP_H_
