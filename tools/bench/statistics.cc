// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/statistics.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <latch>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"

namespace mirrorflow {
namespace {

constexpr int kMinRounds = 7;
constexpr double kDisturbed = 1.05;
constexpr int kWarmUpCalls = 3;
constexpr int kResamples = 2000;

double NowMs() { return absl::ToDoubleMilliseconds(MonotonicTime::Now() - MonotonicTime()); }

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

absl::StatusOr<double> MeanCallMs(double round_ms, const std::function<absl::Status()>& work) {
  const double begin = NowMs();
  for (int64_t calls = 1;; ++calls) {
    MF_RETURN_IF_ERROR(work());
    const double ms = NowMs() - begin;
    if (ms >= round_ms) return ms / static_cast<double>(calls);
  }
}

Side MakeSide(std::function<absl::Status()> work) {
  double call_ms = 0;
  return [work = std::move(work), call_ms](double round_ms) mutable -> absl::StatusOr<double> {
    if (call_ms == 0) {
      for (int i = 0; i < kWarmUpCalls; ++i) MF_RETURN_IF_ERROR(work());
      MF_ASSIGN_OR_RETURN(call_ms, MeanCallMs(round_ms, work));
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

Timing TimingOf(const Rounds& rounds, size_t side) {
  const std::vector<double>& ms = rounds.ms[side];
  return {.median_ms = Quantile(ms, 0.5),
          .min_ms = *std::min_element(ms.begin(), ms.end()),
          .iqr_ms = Quantile(ms, 0.75) - Quantile(ms, 0.25),
          .rounds = static_cast<int>(ms.size()),
          .discarded = rounds.discarded};
}

absl::StatusOr<LoadTiming> RunClosedLoop(int clients, absl::Duration time,
                                         const std::function<absl::Status(int client)>& request) {
  struct alignas(64) Client {  // avoids false sharing between clients
    absl::Status status;
    std::vector<double> latencies_ms;
    MonotonicTime begin, end;
    std::thread thread;
  };
  std::vector<Client> all(clients);
  std::latch ready(clients);
  std::atomic<bool> failed = false;
  for (int c = 0; c < clients; ++c) {
    all[c].thread = std::thread([&, c] {
      Client& client = all[c];
      client.latencies_ms.reserve(1 << 16);
      ready.arrive_and_wait();
      MonotonicTime last = client.begin = MonotonicTime::Now();
      const MonotonicTime end = last + time;
      do {
        client.status = request(c);
        if (!client.status.ok()) failed = true;
        // One clock reading ends a request and starts the next.
        const MonotonicTime now = MonotonicTime::Now();
        client.latencies_ms.push_back(absl::ToDoubleMilliseconds(now - last));
        last = now;
      } while (last < end && !failed);
      client.end = last;
    });
  }
  for (Client& client : all) client.thread.join();
  std::vector<double> latencies_ms;
  MonotonicTime begin = MonotonicTime::InfiniteFuture(), end;
  for (const Client& client : all) {
    if (!client.status.ok()) return client.status;
    latencies_ms.insert(latencies_ms.end(), client.latencies_ms.begin(), client.latencies_ms.end());
    begin = std::min(begin, client.begin);
    end = std::max(end, client.end);
  }
  return LoadTiming{.requests = static_cast<int64_t>(latencies_ms.size()),
                    .seconds = absl::ToDoubleSeconds(end - begin),
                    .p50_ms = Quantile(latencies_ms, 0.5),
                    .p99_ms = Quantile(latencies_ms, 0.99)};
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
