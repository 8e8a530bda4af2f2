// SPDX-License-Identifier: Apache-2.0
//
// Runs everything in an untrusted graph.
#ifndef MIRRORFLOW_TESTS_SUPPORT_RUN_ALL_H_
#define MIRRORFLOW_TESTS_SUPPORT_RUN_ALL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/graph/graph.h"

namespace mirrorflow {

struct RunAllOptions {
  int replicas = 1;
  int64_t max_bytes = 0;  // of memory
  absl::Duration step_timeout = absl::Minutes(1);
};

// Feeds all placeholders (floats with ones, others with zeros). Fetches or runs every node without
// a consumer, in one step under MirroredStrategy with every check enabled, then runs a second step
// that only fetches. Any error except Internal is caused by the graph.
absl::Status RunAll(const Graph& graph, const RunAllOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_RUN_ALL_H_
