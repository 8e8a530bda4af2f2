// SPDX-License-Identifier: Apache-2.0
//
// Benchmarks matrix products and convolutions as steps of a session, against direct calls of the
// library that computes them, on one core.
#ifndef MIRRORFLOW_TOOLS_BENCH_KERNELS_H_
#define MIRRORFLOW_TOOLS_BENCH_KERNELS_H_

#include "absl/status/status.h"
#include "tools/bench_report.h"

namespace mirrorflow {

absl::Status BenchProducts(Report* report);  // C3: against oneDNN, and the peak of the core
absl::Status BenchConvolutions(
    Report* report);  // C4: with both gradients, against oneDNN and Eigen

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_KERNELS_H_
