// SPDX-License-Identifier: Apache-2.0
#include "distribute/cluster/measure_link.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "framework/core/monotonic_time.h"
#include "framework/core/status.h"
#include "framework/core/thread.h"

namespace mirrorflow {
namespace {

constexpr int64_t kSmall = 1 << 10, kLarge = 1 << 20;  // floats
constexpr int kWarmUp = 3, kSmallRounds = 51, kLargeRounds = 9;

// Returns the median time of an all-reduce in nanoseconds.
absl::StatusOr<double> TimeAllReduce(Communicator& communicator, int64_t count, int rounds) {
  std::vector<float> values(count, 1.0f);
  std::vector<double> times;
  for (int i = 0; i < kWarmUp + rounds; ++i) {
    const MonotonicTime start = MonotonicTime::Now();
    MF_RETURN_IF_ERROR(communicator.Run({.operation = AllReduce{Reduction::kMax, count},
                                         .in = values.data(),
                                         .out = values.data(),
                                         .name = "measurement of the link"}));
    if (i >= kWarmUp) times.push_back(absl::ToDoubleNanoseconds(MonotonicTime::Now() - start));
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

absl::StatusOr<LinkCosts> Measure(Communicator& communicator) {
  MF_ASSIGN_OR_RETURN(const double small, TimeAllReduce(communicator, kSmall, kSmallRounds));
  MF_ASSIGN_OR_RETURN(const double large, TimeAllReduce(communicator, kLarge, kLargeRounds));
  constexpr double kMoreBytes = (kLarge - kSmall) * sizeof(float);
  return LinkCosts{.message_ns = std::max(small, 1.0),
                   .byte_ns = std::max((large - small) / kMoreBytes, 1e-3)};
}

}  // namespace

absl::StatusOr<LinkCosts> MeasureLink(absl::Span<const std::unique_ptr<Communicator>> local_ranks,
                                      WorkerGroup& workers, MonotonicTime deadline) {
  std::vector<absl::StatusOr<LinkCosts>> measured(local_ranks.size(), LinkCosts{});
  std::vector<std::thread> threads;
  for (size_t i = 0; i < local_ranks.size(); ++i) {
    absl::StatusOr<std::thread> thread =
        StartThread("measurement of the link", [&, i] { measured[i] = Measure(*local_ranks[i]); });
    if (thread.ok()) {
      threads.push_back(*std::move(thread));
    } else {
      measured[i] = thread.status();
      local_ranks[i]->Abort(thread.status());  // otherwise, the other ranks would wait for this one
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& costs : measured) MF_RETURN_IF_ERROR(costs.status());

  constexpr char kKey[] = "costs of the link";
  if (workers.worker() == 0) {
    MF_RETURN_IF_ERROR(workers.Put(
        kKey, absl::StrFormat("%.17g %.17g", measured[0]->message_ns, measured[0]->byte_ns),
        deadline));
    return measured[0];
  }
  MF_ASSIGN_OR_RETURN(const std::string text, workers.Get(kKey, deadline));
  const std::vector<std::string> numbers = absl::StrSplit(text, ' ');
  LinkCosts costs;
  if (numbers.size() == 2 && absl::SimpleAtod(numbers[0], &costs.message_ns) &&
      absl::SimpleAtod(numbers[1], &costs.byte_ns) && costs.message_ns > 0 && costs.byte_ns > 0) {
    return costs;
  }
  return absl::InternalError(
      absl::StrFormat("worker 0's %s: expected two positive numbers, got '%s'", kKey, text));
}

}  // namespace mirrorflow
