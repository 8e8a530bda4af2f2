// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/coordination/straggler_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace mirrorflow {
namespace {

constexpr double kMinCost = 0.1;
// With fewer steps, the result would depend on where in a step the interval begins and ends.
constexpr uint64_t kMinRuns = 10;

}  // namespace

void StragglerWatch::Beat(int worker, const coordination::Heartbeat& heartbeat, MonotonicTime now) {
  const Sample sample = {.time = now,
                         .runs = heartbeat.runs(),
                         .in_runs = absl::Microseconds(heartbeat.in_runs_us()),
                         .waited = absl::Microseconds(heartbeat.waited_us())};
  const auto [found, is_new] =
      workers_.try_emplace(worker, Worker{.first = sample, .last = sample});
  if (is_new) return;
  // A new session's counts begin at zero.
  Sample& last = found->second.last;
  if (sample.runs < last.runs || sample.in_runs < last.in_runs || sample.waited < last.waited) {
    is_interrupted_ = true;
  }
  last = sample;
}

void StragglerWatch::Remove(int worker) { workers_.erase(worker); }

void StragglerWatch::BeginInterval(MonotonicTime now) {
  began_ = now;
  for (auto& [number, worker] : workers_) worker.first = worker.last;
}

std::optional<StragglerWatch::Straggler> StragglerWatch::Find(MonotonicTime now) {
  if (std::exchange(is_interrupted_, false) || began_ == MonotonicTime::InfinitePast()) {
    BeginInterval(now);
  }
  if (now < began_ + kInterval) return std::nullopt;
  std::vector<double> waited;  // by worker, as a fraction of the time
  double least_waited = 0;
  int slowest = -1;
  for (const auto& [number, worker] : workers_) {
    const absl::Duration elapsed = worker.last.time - worker.first.time;
    if (worker.last.runs < worker.first.runs + kMinRuns || elapsed <= absl::ZeroDuration()) {
      return std::nullopt;
    }
    waited.push_back(absl::FDivDuration(worker.last.waited - worker.first.waited, elapsed));
    if (slowest >= 0 && waited.back() >= least_waited) continue;
    slowest = number;
    least_waited = waited.back();
  }
  if (waited.size() < 2) return std::nullopt;
  // Take the upper median: with two workers, it is the wait of the worker that is not the
  // straggler.
  const auto median = waited.begin() + static_cast<int64_t>(waited.size() / 2);
  std::nth_element(waited.begin(), median, waited.end());
  const auto [first, last] = workers_.at(slowest);
  BeginInterval(now);
  if (*median - least_waited <= kMinCost) return std::nullopt;
  const absl::Duration interval = last.time - first.time;
  const absl::Duration in_runs = last.in_runs - first.in_runs;
  const absl::Duration own_waits = last.waited - first.waited;
  return Straggler{.worker = slowest,
                   .cost = *median - least_waited,
                   .interval = interval,
                   // Clamp, because a run's waits are counted before the run has ended.
                   .computed = std::max(in_runs - own_waits, absl::ZeroDuration()),
                   .between = std::max(interval - in_runs, absl::ZeroDuration()),
                   .waited = own_waits,
                   .median_waited = *median * interval};
}

std::string StragglerWatch::Straggler::Text() const {
  using absl::ToDoubleSeconds;
  return absl::StrFormat(
      "is a straggler, which costs %.0f %% of the time: in the last %.0f s, it computed for %.1f "
      "s, spent %.1f s between steps and waited %.1f s for others; the median worker waited %.1f s",
      100 * cost, ToDoubleSeconds(interval), ToDoubleSeconds(computed), ToDoubleSeconds(between),
      ToDoubleSeconds(waited), ToDoubleSeconds(median_waited));
}

}  // namespace mirrorflow
