// SPDX-License-Identifier: Apache-2.0
//
// Measures this machine's cost table, and how long a step's instructions take.
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_CALIBRATE_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_CALIBRATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/runtime/plan.h"
#include "framework/session/session.h"
#include "tools/explain/cost_model.h"

namespace mirrorflow {

struct Machine {
  double fma_flops_per_ns = 0;  // a core's arithmetic limit
  int64_t last_level_cache_bytes = 0;
  CostTable table;
};

// Measures what each kernel costs one replica while all `replicas` replicas run it. Takes a few
// seconds. Runs training and inference steps of networks with many kinds of layers, in sizes that
// do not occur in known models, and fits prices to the fastest run of each kernel. Products and
// convolutions that do not occur in these networks share one set of prices, fitted to those of the
// inference steps. All other ops that do not occur share another, fitted to all ops that are
// neither matrix products nor convolutions.
absl::StatusOr<Machine> Calibrate(int replicas);

// Measures the total memory read bandwidth of `threads` threads, in bytes per nanosecond.
absl::StatusOr<double> MemoryBytesPerNs(int threads);

// Runs `step` for `budget`, at least 4 and at most 100 times. Returns the shortest time of each
// instruction of `plan`, the first replica's plan, in nanoseconds, or 0 for instructions that were
// not dispatched.
absl::StatusOr<std::vector<double>> FastestInstructions(Session& session, Step& step,
                                                        absl::Span<const Tensor> feeds,
                                                        const Plan& plan, absl::Duration budget);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_CALIBRATE_H_
