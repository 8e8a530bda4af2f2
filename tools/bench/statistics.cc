// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr int kMinRounds = 7;
constexpr double kDisturbed = 1.05;
constexpr int kWarmUpCalls = 3;
constexpr int kResamples = 2000;

double NowMs() { return static_cast<double>(absl::GetCurrentTimeNanos()) * 1e-6; }

// Returns the milliseconds of a fixed number of multiply-adds on one core.
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

// Returns the slowest time of `threads` threads that run the canary at the same time.
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

Side SideOf(std::function<absl::Status()> work) {
  double call_ms = 0;
  return [work = std::move(work), call_ms](double round_ms) mutable -> absl::StatusOr<double> {
    if (call_ms == 0) {
      for (int i = 0; i < kWarmUpCalls; ++i) MF_RETURN_IF_ERROR(work());
      const double begin = NowMs();
      int64_t calls = 0;
      for (; calls < 1 || NowMs() - begin < round_ms; ++calls) MF_RETURN_IF_ERROR(work());
      call_ms = (NowMs() - begin) / static_cast<double>(calls);
    }
    const auto calls = std::max<int64_t>(1, static_cast<int64_t>(round_ms / call_ms));
    const double begin = NowMs();
    for (int64_t i = 0; i < calls; ++i) MF_RETURN_IF_ERROR(work());
    return (NowMs() - begin) / static_cast<double>(calls);
  };
}

absl::StatusOr<Rounds> MeasureInTurns(absl::Span<const Side> sides, const TimingOptions& options) {
  const int rounds = std::max(options.rounds, kMinRounds);
  const size_t n = sides.size();
  std::vector<std::vector<double>> ms(n, std::vector<double>(rounds));
  std::vector<double> slowest(rounds, 0);  // canary of each round
  double best = std::numeric_limits<double>::infinity();
  for (const Side& side : sides) MF_RETURN_IF_ERROR(side(options.round_ms).status());  // warms up
  for (int round = 0; round < rounds; ++round) {
    for (size_t k = 0; k < n; ++k) {
      const size_t side = round % 2 == 0 ? k : n - 1 - k;
      const double canary = SlowestCanaryMs(options.canary_threads);
      slowest[round] = std::max(slowest[round], canary);
      best = std::min(best, canary);
      MF_ASSIGN_OR_RETURN(ms[side][round], sides[side](options.round_ms));
    }
  }
  std::vector<int> kept;
  for (int round = 0; round < rounds; ++round) {
    if (slowest[round] <= best * kDisturbed) kept.push_back(round);
  }
  if (static_cast<int>(kept.size()) < kMinRounds) {
    kept.resize(rounds);
    std::iota(kept.begin(), kept.end(), 0);
  }
  Rounds result{.ms = std::vector<std::vector<double>>(n),
                .discarded = rounds - static_cast<int>(kept.size())};
  for (size_t side = 0; side < n; ++side) {
    for (const int round : kept) result.ms[side].push_back(ms[side][round]);
  }
  result.kept = std::move(kept);
  return result;
}

Timing TimingOf(const Rounds& rounds, int side) {
  const std::vector<double>& ms = rounds.ms[side];
  return {.median_ms = Quantile(ms, 0.5),
          .min_ms = *std::min_element(ms.begin(), ms.end()),
          .iqr_ms = Quantile(ms, 0.75) - Quantile(ms, 0.25),
          .rounds = static_cast<int>(ms.size()),
          .discarded = rounds.discarded};
}

absl::StatusOr<Timing> Measure(const std::function<absl::Status()>& work,
                               const TimingOptions& options) {
  MF_ASSIGN_OR_RETURN(const Rounds rounds, MeasureInTurns({SideOf(work)}, options));
  return TimingOf(rounds, 0);
}

Estimate MedianOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::mt19937 random(1);
  std::uniform_int_distribution<size_t> any(0, values.size() - 1);
  std::vector<double> medians, sample(values.size());
  for (int i = 0; i < kResamples; ++i) {
    for (double& value : sample) value = values[any(random)];
    medians.push_back(Quantile(sample, 0.5));
  }
  return {.median = Quantile(values, 0.5),
          .low = Quantile(medians, 0.05),
          .high = Quantile(medians, 0.95)};
}

Estimate RatioOf(absl::Span<const double> a, absl::Span<const double> b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) ratios.push_back(a[i] / b[i]);
  return MedianOf(std::move(ratios));
}

const char* VerdictAtLeast(const Estimate& figure, double bound) {
  if (figure.low >= bound) return "met";
  return figure.high < bound ? "missed" : "undecided";
}

const char* VerdictAtMost(const Estimate& figure, double bound) {
  if (figure.high <= bound) return "met";
  return figure.low > bound ? "missed" : "undecided";
}

}  // namespace mirrorflow
