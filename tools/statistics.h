// SPDX-License-Identifier: Apache-2.0
//
// Timing on machines that are shared and noisy: rounds, each after a canary, medians and spreads.
#ifndef MIRRORFLOW_TOOLS_STATISTICS_H_
#define MIRRORFLOW_TOOLS_STATISTICS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace mirrorflow {

struct Timing {
  double median_ms = 0;
  double min_ms = 0;
  double iqr_ms = 0;  // between the quartiles
  int rounds = 0;     // that counted
  int discarded = 0;  // in which the machine was disturbed
};

struct TimingOptions {
  int rounds = 9;          // at least 7
  double round_ms = 150;   // how long one round runs at least
  int canary_threads = 1;  // cores whose speed is checked before each round
};

// Calls `work` again and again. Before each round a burst of multiply-adds tells how fast the cores
// are; rounds more than 5 % slower than the best are left out of the figures, unless fewer than 7
// would be left. A round's figure is its mean time of one call.
absl::StatusOr<Timing> Measure(const std::function<absl::Status()>& work,
                               const TimingOptions& options = {});

// The value below which a share `q` of the sorted values lies, interpolated.
double Quantile(std::vector<double> values, double q);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_STATISTICS_H_
