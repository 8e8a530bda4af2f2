// SPDX-License-Identifier: Apache-2.0
//
// Closed-loop load test: each client sends its next request when it has the answer to the last one.
//
//   MF_ASSIGN_OR_RETURN(LoadTiming load, RunClosedLoop(2, absl::Seconds(1), [&](int client) {
//     return step.Run({examples[client]}).status();
//   }));
#ifndef MIRRORFLOW_TOOLS_BENCH_CLOSED_LOOP_H_
#define MIRRORFLOW_TOOLS_BENCH_CLOSED_LOOP_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mirrorflow {

// Results over all clients.
struct LoadTiming {
  int64_t requests = 0;
  double seconds = 0;  // from the first request to the last answer
  // Latency percentiles of the requests.
  double p50_ms = 0;
  double p99_ms = 0;
};

// Runs `clients` threads, each of which calls request(client) repeatedly until `time` has passed,
// at least once. If a request fails, the clients stop after their current request, and the first
// error is returned.
absl::StatusOr<LoadTiming> RunClosedLoop(int clients, absl::Duration time,
                                         const std::function<absl::Status(int client)>& request);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_BENCH_CLOSED_LOOP_H_
