// SPDX-License-Identifier: Apache-2.0
//
// Runs what a graph from anywhere offers.
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

// Feeds all placeholders (floats with ones, all else with zeros), and fetches and runs everything
// that nobody uses, in one step under MirroredStrategy, with every check on. Any error but an
// Internal one is the graph's.
absl::Status RunAll(const Graph& graph, const RunAllOptions& options);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TESTS_SUPPORT_RUN_ALL_H_
