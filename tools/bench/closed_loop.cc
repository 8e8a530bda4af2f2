// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/closed_loop.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "framework/core/monotonic_time.h"
#include "tools/bench/statistics.h"

namespace mirrorflow {

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

}  // namespace mirrorflow
