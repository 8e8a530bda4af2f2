// SPDX-License-Identifier: Apache-2.0
//
// The cost table of this machine.
#ifndef MIRRORFLOW_TOOLS_CALIBRATE_H_
#define MIRRORFLOW_TOOLS_CALIBRATE_H_

#include "absl/status/statusor.h"
#include "tools/cost_model.h"

namespace mirrorflow {

struct Machine {
  double fma_flops_per_ns = 0;  // the arithmetic limit of a core
  CostTable table;
};

// Measures, in about a second, what kernels cost one of so many replicas while the others run
// the same: the fastest runs of each kernel in some training steps of layers of all kinds, in sizes
// of their own, from which prices are fitted. An op that is not among them costs what others take
// to pass over their bytes, and products for their arithmetic.
absl::StatusOr<Machine> Calibrate(int replicas);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_CALIBRATE_H_
