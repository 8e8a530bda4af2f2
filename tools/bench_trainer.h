// SPDX-License-Identifier: Apache-2.0
//
// Measures what Trainer costs beside a loop that only runs the step: with a progress bar,
// TensorBoard and a metric.
#ifndef MIRRORFLOW_TOOLS_BENCH_TRAINER_H_
#define MIRRORFLOW_TOOLS_BENCH_TRAINER_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

// Trains mlp with batches of 64 rows on one replica and on two, in turns with the bare loop.
absl::Status BenchTrainer(Report* report);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_TRAINER_H_
