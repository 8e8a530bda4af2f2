// SPDX-License-Identifier: Apache-2.0
//
// Timing on machines that are shared and noisy: rounds in which all sides take turns, each after a
// canary; medians, spreads, and ratios of what was measured in one round.
#ifndef MIRRORFLOW_TOOLS_STATISTICS_H_
#define MIRRORFLOW_TOOLS_STATISTICS_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

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
  double round_ms = 150;   // how long one side of a round runs, about
  int canary_threads = 1;  // cores whose speed is checked before each side
};

// One of those who take turns: works for about so many milliseconds and returns its mean time of
// one call, in milliseconds.
using Side = std::function<absl::StatusOr<double>(double round_ms)>;

// What was measured of each side, round by round.
struct Rounds {
  std::vector<std::vector<double>> ms;  // by side, then round; the same rounds of each
  int discarded = 0;
};

// Every round runs each side once, in one order and the next time in the reverse. Before each side
// a burst of multiply-adds tells how fast the cores are; rounds in which it is more than 5 % slower
// than the best are left out, unless fewer than 7 would be left.
absl::StatusOr<Rounds> MeasureInTurns(absl::Span<const Side> sides, const TimingOptions& options);

Timing TimingOf(const Rounds& rounds, int side);

// Calls `work` again and again; one side alone.
absl::StatusOr<Timing> Measure(const std::function<absl::Status()>& work,
                               const TimingOptions& options = {});
// `work` as a side: warmed up, and as many calls a round as fill it.
Side SideOf(std::function<absl::Status()> work);

// A median and its 90 % interval.
struct Estimate {
  double median = 0;
  double low = 0;
  double high = 0;

  static Estimate Exactly(double value) { return {value, value, value}; }
};
// Of figures, by bootstrap (Efron, "Bootstrap methods", 1979); the same figures give the same
// interval.
Estimate MedianOf(std::vector<double> values);
// Of the ratios a / b of paired figures.
Estimate RatioOf(absl::Span<const double> a, absl::Span<const double> b);

// `met` if the whole interval keeps the bound, `missed` if none of it does, else `undecided`.
const char* VerdictAtLeast(const Estimate& figure, double bound);
const char* VerdictAtMost(const Estimate& figure, double bound);

// The value below which a share `q` of the values lies, interpolated; 0 of none.
double Quantile(std::vector<double> values, double q);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_STATISTICS_H_
