// SPDX-License-Identifier: Apache-2.0
//
// Predicts a step's time for each way to divide a host's cores into replicas and threads. The host
// may have more cores than this machine; all cores are assumed to match the cost table.
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

// A host whose cores and memory are divided evenly among its NUMA nodes.
struct Host {
  int cores = 1;
  int numa_nodes = 1;
  double bytes_per_ns = 0;   // the memory bandwidth of a NUMA node, in GB/s; 0 for no limit
  int64_t shared_bytes = 0;  // the last-level cache of a NUMA node
};

struct CoreDivision {
  int replicas = 1;
  int threads = 1;  // per replica
  // A replica's time without memory contention, and a NUMA node's time to transfer the data that
  // misses all caches.
  double replica_ns = 0;
  double memory_ns = 0;
  int64_t node_bytes = 0;  // memory that the step uses per NUMA node

  double step_ns() const { return replica_ns > memory_ns ? replica_ns : memory_ns; }
};

// Returns how long a replica's threads take to run the plan. costs[i] is the time of instruction i.
double ThreadedNs(const Plan& plan, absl::Span<const double> costs);

// Predicts a step with these feed shapes for every way to divide the host's cores evenly into
// replicas, from single-threaded replicas to a single replica. Skips divisions that would leave a
// replica without rows.
absl::StatusOr<std::vector<CoreDivision>> DivideCores(const Step& step,
                                                      const std::vector<Shape>& feed_shapes,
                                                      const Host& host, const CostTable& table);

}  // namespace mirrorflow

#endif  // MIRRORFLOW_TOOLS_EXPLAIN_DIVIDE_CORES_H_
