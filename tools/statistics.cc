// SPDX-License-Identifier: Apache-2.0
#include "tools/statistics.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr int kMinRounds = 7;
constexpr double kDisturbed = 1.05;

double NowMs() { return static_cast<double>(absl::GetCurrentTimeNanos()) * 1e-6; }

// Milliseconds of a fixed number of multiply-adds on one core.
double CanaryMs() {
  float a[64];
  std::fill(a, a + 64, 1.0f);
  const double begin = NowMs();
  for (int i = 0; i < 40000; ++i) {
    for (float& x : a) x = x * 0.999f + 0.001f;
  }
  volatile float sink = a[0];
  (void)sink;
  return NowMs() - begin;
}

// The slowest of `threads` cores at work together.
double SlowestCanaryMs(int threads) {
  std::vector<double> ms(threads);
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back([&ms, t] { ms[t] = CanaryMs(); });
  ms[0] = CanaryMs();
  for (std::thread& other : others) other.join();
  return *std::max_element(ms.begin(), ms.end());
}

}  // namespace

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(std::floor(at));
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - static_cast<double>(below));
}

absl::StatusOr<Timing> Measure(const std::function<absl::Status()>& work,
                               const TimingOptions& options) {
  // Warm up, and find out how many calls make a round.
  for (int i = 0; i < 3; ++i) MF_RETURN_IF_ERROR(work());
  double begin = NowMs();
  int64_t calls = 0;
  while (calls < 1 || NowMs() - begin < options.round_ms) {
    MF_RETURN_IF_ERROR(work());
    ++calls;
  }
  const int rounds = std::max(options.rounds, kMinRounds);
  std::vector<double> canary, mean;
  for (int round = 0; round < rounds; ++round) {
    canary.push_back(SlowestCanaryMs(options.canary_threads));
    begin = NowMs();
    for (int64_t i = 0; i < calls; ++i) MF_RETURN_IF_ERROR(work());
    mean.push_back((NowMs() - begin) / static_cast<double>(calls));
  }
  const double best = *std::min_element(canary.begin(), canary.end());
  std::vector<double> kept;
  for (int round = 0; round < rounds; ++round) {
    if (canary[round] <= best * kDisturbed) kept.push_back(mean[round]);
  }
  if (static_cast<int>(kept.size()) < kMinRounds) kept = mean;
  Timing timing;
  timing.rounds = static_cast<int>(kept.size());
  timing.discarded = rounds - timing.rounds;
  timing.median_ms = Quantile(kept, 0.5);
  timing.min_ms = *std::min_element(kept.begin(), kept.end());
  timing.iqr_ms = Quantile(kept, 0.75) - Quantile(kept, 0.25);
  return timing;
}

}  // namespace mirrorflow
