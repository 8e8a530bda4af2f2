// SPDX-License-Identifier: Apache-2.0
//
// Measures this machine's cost table, and the instructions of a step.
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_CALIBRATE_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_CALIBRATE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/runtime/plan.h"
#include "framework/session/session.h"
#include "tools/explain/cost_model.h"

namespace mirrorflow {

struct Machine {
  double fma_flops_per_ns = 0;  // the arithmetic limit of a core
  CostTable table;
};

// Measures what each kernel costs one replica while all `replicas` replicas run it; takes about a
// second. Runs training steps of networks with many kinds of layers, in sizes that no known model
// has, and fits prices to the fastest run of each kernel. Ops that do not occur in these networks
// share one set of prices: memory prices fitted to the measured ops that are neither matrix
// products nor convolutions, and an assumed arithmetic rate.
absl::StatusOr<Machine> Calibrate(int replicas);

// Runs `step` for `budget`, at least 4 and at most 100 times. `plan` is the first replica's plan.
// Returns the shortest time of each of its instructions in nanoseconds; 0 for an instruction that
// was not dispatched.
absl::StatusOr<std::vector<double>> FastestInstructions(Session& session, Step& step,
                                                        absl::Span<const Tensor> feeds,
                                                        const Plan& plan, absl::Duration budget);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_CALIBRATE_H_
