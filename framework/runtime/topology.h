// SPDX-License-Identifier: Apache-2.0
//
// Topology lists the replicas of the world, and groups them by worker (a process) and by memory
// domain (ranks that can access one another's memory). It is equal on every worker.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_TOPOLOGY_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_TOPOLOGY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace mirrorflow {

struct Topology {
  // The location of a replica.
  struct Place {
    int worker = 0;
    int domain = 0;
    std::string device = "CPU:0";  // on its worker: `CPU:1`, `GPU:0`

    friend bool operator==(const Place&, const Place&) = default;
  };
  // By rank, worker by worker.
  std::vector<Place> replicas;

  int world_size() const { return static_cast<int>(replicas.size()); }
  int num_workers() const { return replicas.empty() ? 0 : replicas.back().worker + 1; }
  int num_domains() const;
  std::vector<std::string> devices() const;  // by rank
  std::vector<int> RanksOfWorker(int worker) const;
  std::vector<int> RanksOfDomain(int domain) const;
  // Whether the memory domain of `rank` has ranks of several workers.
  bool DomainSpansWorkers(int rank) const;

  // InvalidArgument unless there is at least one replica, workers and domains are numbered from 0
  // without gaps, and ranks are ordered by worker. The error names the rank.
  absl::Status Check() const;
  // `worker 0: rank 0 on CPU:0 in domain 0, …`
  std::string ToString() const;

  // A world of one worker, with one memory domain for all devices or one for each.
  static Topology OneWorker(absl::Span<const std::string> devices, bool one_domain);

  friend bool operator==(const Topology&, const Topology&) = default;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_TOPOLOGY_H_
