// SPDX-License-Identifier: Apache-2.0
//
// Predicts how long a step takes for each way to divide a host's cores into replicas and threads.
// The host can be larger than this machine, whose cores the cost table describes.
#ifndef MIRRORFLOW_TOOLS_EXPLAIN_DIVIDE_CORES_H_
#define MIRRORFLOW_TOOLS_EXPLAIN_DIVIDE_CORES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/core/shape.h"
#include "framework/runtime/plan.h"
#include "framework/session/session.h"
#include "tools/explain/cost_model.h"

namespace mirrorflow {

// Cores and memory are divided evenly among the NUMA nodes.
struct Host {
  int cores = 1;
  int numa_nodes = 1;
  double bytes_per_ns = 0;   // the memory bandwidth of a NUMA node, in GB/s; 0 for no limit
  int64_t shared_bytes = 0;  // the last-level cache of a NUMA node
};

struct CoreDivision {
  int replicas = 1;
  int threads = 1;  // per replica
  // The time that a replica needs without competing for memory, and the time that a NUMA node needs
  // to move what misses all caches.
  double replica_ns = 0;
  double memory_ns = 0;
  int64_t node_bytes = 0;  // of memory that the step uses in a NUMA node

  double step_ns() const { return replica_ns > memory_ns ? replica_ns : memory_ns; }
};

// Returns how long a replica's threads take to run the plan if each instruction costs as much as
// given.
double ThreadedNs(const Plan& plan, absl::Span<const double> costs);

// Returns all divisions of the host's cores into equal replicas, from one thread per replica to one
// replica, for a step with these feed shapes. No replica is without a row, unless there is only
// one.
absl::StatusOr<std::vector<CoreDivision>> DivideCores(const Step& step,
                                                      const std::vector<Shape>& feed_shapes,
                                                      const Host& host, const CostTable& table);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_DIVIDE_CORES_H_
