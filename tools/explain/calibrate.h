// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost table of this machine.
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_CALIBRATE_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_CALIBRATE_H_

#include "absl/status/statusor.h"
#include "tools/explain/cost_model.h"

namespace mirrorflow {

struct Machine {
  double fma_flops_per_ns = 0;  // the arithmetic limit of a core
  CostTable table;
};

// Measures, in about a second, what kernels cost one of `replicas` replicas while the others run
// the same. Runs some training steps of layers of all kinds, in sizes that no known model has, and
// fits prices to the fastest run of each kernel. All other ops share one set of prices: memory
// prices fitted to the measured ops without products and convolutions, and an assumed rate of
// arithmetic.
absl::StatusOr<Machine> Calibrate(int replicas);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_CALIBRATE_H_
