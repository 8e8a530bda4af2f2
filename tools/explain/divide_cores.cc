// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/divide_cores.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "framework/core/status.h"
#include "framework/session/step_plans.h"
#include "tools/explain/step_memory.h"

namespace mirrorflow {
namespace {

// The delay between an instruction and one that waits for it on another thread: the time to move a
// cache line between cores.
constexpr double kWaitNs = 150;

double FarBytes(const Plan& plan, const CostTable& table) {
  double bytes = 0;
  for (const Amounts& demands : DemandsOf(plan, table)) {
    bytes += demands[kFarReads] + demands[kFarWrites];
  }
  return bytes;
}

// Returns the memory that all replicas use. They share variables, optimizer state and forms.
int64_t HostBytes(const StepMemory& memory, int replicas) {
  const int64_t shared = memory.variables + memory.optimizer_state + memory.forms;
  return shared + replicas * (memory.total() - shared);
}

absl::StatusOr<CoreDivision> Predict(const Step& step, const std::vector<Shape>& feed_shapes,
                                     const Host& host, CostTable table, int replicas) {
  CoreDivision division = {.replicas = replicas, .threads = host.cores / replicas};
  Topology topology;
  topology.replicas.resize(replicas);
  MF_ASSIGN_OR_RETURN(
      const PlanElsewhere there,
      CompileStepFor(step, feed_shapes,
                     {.topology = topology, .threads_per_replica = division.threads}));
  const Plan& plan = *there.plan;
  // Each thread has the private caches of its own core.
  table.near_bytes *= division.threads;
  table.shared_bytes = host.shared_bytes * host.numa_nodes / replicas;
  division.replica_ns = ThreadedNs(plan, CostsOf(plan, table));
  const double host_bytes = FarBytes(plan, table) * replicas;
  if (host.bytes_per_ns > 0) {
    division.memory_ns = host_bytes / host.numa_nodes / host.bytes_per_ns;
  }
  division.node_bytes = HostBytes(MemoryOf(plan, *there.layout), replicas) / host.numa_nodes;
  return division;
}

}  // namespace

double ThreadedNs(const Plan& plan, absl::Span<const double> costs) {
  std::vector<double> end(plan.instructions.size(), 0);
  std::vector<double> free_at(plan.num_threads, 0);
  auto wait = plan.waits.begin();
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    double& now = free_at[plan.instructions[i].thread];
    for (; wait != plan.waits.end() && wait->instruction == static_cast<int>(i); ++wait) {
      now = std::max(now, end[wait->other] + kWaitNs);
    }
    end[i] = now += costs[i];
  }
  return *absl::c_max_element(free_at);
}

absl::StatusOr<std::vector<CoreDivision>> DivideCores(const Step& step,
                                                      const std::vector<Shape>& feed_shapes,
                                                      const Host& host, const CostTable& table) {
  int64_t rows = 1;
  for (const Shape& shape : feed_shapes) {
    if (shape.rank() > 0) rows = std::max(rows, shape.dim(0));
  }
  std::vector<CoreDivision> divisions;
  for (int replicas = host.cores; replicas > 0; --replicas) {
    if (host.cores % replicas != 0 || replicas > rows) continue;
    MF_ASSIGN_OR_RETURN(divisions.emplace_back(),
                        Predict(step, feed_shapes, host, table, replicas));
  }
  return divisions;
}

}  // namespace mirrorflow
