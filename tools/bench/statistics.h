// SPDX-License-Identifier: Apache-2.0
//
// Timing on shared and noisy machines. All sides of a comparison take turns in rounds, each after a
// canary that measures the speed of the machine. The results are medians, spreads, and ratios of
// times from the same round.
#ifndef MIRRORFLOW_TOOLS_BENCH_STATISTICS_H_
#define MIRRORFLOW_TOOLS_BENCH_STATISTICS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace mirrorflow {

struct Timing {
  double median_ms = 0;
  double min_ms = 0;
  double iqr_ms = 0;  // interquartile range
  int rounds = 0;     // rounds that were kept
  int discarded = 0;  // rounds discarded because the machine was disturbed
};

struct TimingOptions {
  int rounds = 9;          // at least 7
  double round_ms = 150;   // approximate time of one side in a round
  int canary_threads = 1;  // cores whose speed is checked before each side
};

// One side of a comparison: works for about `round_ms` and returns its mean time per call, in
// milliseconds.
using Side = std::function<absl::StatusOr<double>(double round_ms)>;

// The times of each side in each round.
struct Rounds {
  std::vector<std::vector<double>> ms;  // by side, then round; the same rounds for every side
  std::vector<int> kept;                // the indices of these rounds, from 0 after the warm-up
  int discarded = 0;
};

// Runs each side once per round, in reverse order in every second round. A burst of multiply-adds
// before each side measures the speed of the cores. Discards each round with a burst that is more
// than 5 % slower than the best burst, unless fewer than 7 rounds would remain.
absl::StatusOr<Rounds> MeasureInTurns(absl::Span<const Side> sides, const TimingOptions& options);

Timing TimingOf(const Rounds& rounds, size_t side);

// Repeats `work` until `round_ms` milliseconds have passed, and returns the mean time per call.
absl::StatusOr<double> MeanCallMs(double round_ms, const std::function<absl::Status()>& work);
// Makes a side from `work`: warms it up, then calls it as often as fits in a round.
Side MakeSide(std::function<absl::Status()> work);

// Results of a closed-loop load test over all clients.
struct LoadTiming {
  int64_t requests = 0;
  double seconds = 0;  // time from the first request to the last answer
  // Latency percentiles of the requests.
  double p50_ms = 0;
  double p99_ms = 0;
};

// Runs `clients` threads. Each thread calls request(client) repeatedly until `time` has passed, but
// at least once. A client sends its next request once it has the answer to the last one. If a
// request fails, the clients stop after their current request; returns the first error.
absl::StatusOr<LoadTiming> RunClosedLoop(int clients, absl::Duration time,
                                         const std::function<absl::Status(int client)>& request);

// A median and its 90 % interval.
struct Estimate {
  double median = 0;
  double low = 0;
  double high = 0;

  static Estimate Exactly(double value) { return {value, value, value}; }
};
// Estimates the median of `values` by bootstrap (Efron, "Bootstrap methods", 1979). The same values
// give the same interval.
Estimate MedianOf(std::vector<double> values);
// Estimates the median of the ratios a / b of paired figures.
Estimate RatioOf(absl::Span<const double> a, absl::Span<const double> b);

// Returns `met` if the whole interval satisfies the bound, `missed` if no part of it does,
// otherwise `undecided`.
const char* VerdictAtLeast(const Estimate& figure, double bound);
const char* VerdictAtMost(const Estimate& figure, double bound);

// Returns the `q` quantile of `values`, interpolated; 0 if `values` is empty.
double Quantile(std::vector<double> values, double q);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_STATISTICS_H_
