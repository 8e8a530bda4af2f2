// SPDX-License-Identifier: Apache-2.0
//
// Topology: the replicas of the world, grouped by worker (a process) and by memory domain (ranks
// that can access one another's memory). LinkCosts models the cost of moving data between domains.
// Both must be equal on all workers, because plans depend on them.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_TOPOLOGY_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_TOPOLOGY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace mirrorflow {

struct Topology {
  // Where a replica runs.
  struct ReplicaLocation {
    int worker = 0;
    int domain = 0;
    std::string device = "CPU:0";  // numbered within its worker: `CPU:1`, `GPU:0`

    friend bool operator==(const ReplicaLocation&, const ReplicaLocation&) = default;
  };
  // All replicas, indexed by rank and ordered by worker.
  std::vector<ReplicaLocation> replicas;

  int world_size() const { return static_cast<int>(replicas.size()); }
  int num_workers() const { return replicas.empty() ? 0 : replicas.back().worker + 1; }
  int num_domains() const;
  std::vector<std::string> devices() const;  // by rank
  std::vector<int> RanksOfWorker(int worker) const;
  std::vector<int> RanksOfDomain(int domain) const;
  // Returns whether the memory domain of `rank` spans several workers.
  bool DomainSpansWorkers(int rank) const;

  // Returns InvalidArgument unless there is at least one replica, workers and domains are numbered
  // from 0 without gaps, and ranks are ordered by worker. If a rank has the wrong worker, the error
  // names the rank.
  absl::Status Check() const;
  // Formats the topology as `worker 0: rank 0 on CPU:0 in domain 0, …`.
  std::string ToString() const;

  // Returns a world of one worker. If `one_domain` is true, its devices share one memory domain; if
  // false, each device has a separate domain.
  static Topology OneWorker(absl::Span<const std::string> devices, bool one_domain);

  friend bool operator==(const Topology&, const Topology&) = default;
};

// The cost of sending a message between domains: α + β · bytes. The defaults are for TCP: between
// two network namespaces of one machine, with a core for each, we measured 22 µs and 0.8 to 1.2 ns;
// a 10 Gbit/s link needs 0.8 ns per byte.
struct LinkCosts {
  double message_ns = 20'000;  // α: the latency of a small message
  double byte_ns = 1;          // β: per byte of a large message, including its CPU time

  // Returns the bucket size that minimises the latency of all buckets plus the transfer time of the
  // last one, which nothing overlaps: √(α · bytes / β), clamped to sensible bounds.
  int64_t BucketBytes(int64_t bytes_of_gradients) const;

  std::string ToString() const;  // exact, for comparisons

  friend bool operator==(const LinkCosts&, const LinkCosts&) = default;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_TOPOLOGY_H_
