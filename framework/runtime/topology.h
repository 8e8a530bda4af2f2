// SPDX-License-Identifier: Apache-2.0
//
// Topology: the replicas of the world, and which of them share a worker (a process) and a memory
// domain (ranks that can reach one another's memory). The same on every worker.
#ifndef MIRRORFLOW_FRAMEWORK_RUNTIME_TOPOLOGY_H_
#define MIRRORFLOW_FRAMEWORK_RUNTIME_TOPOLOGY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace mirrorflow {

struct Topology {
  struct Replica {
    int worker = 0;
    int domain = 0;
    std::string device = "CPU:0";  // of its worker: `CPU:1`, `GPU:0`

    friend bool operator==(const Replica&, const Replica&) = default;
  };
  // By rank, worker by worker.
  std::vector<Replica> replicas;

  int world_size() const { return static_cast<int>(replicas.size()); }
  int num_workers() const { return replicas.empty() ? 0 : replicas.back().worker + 1; }
  int num_domains() const;
  std::vector<std::string> devices() const;  // by rank
  std::vector<int> RanksOfWorker(int worker) const;
  std::vector<int> RanksOfDomain(int domain) const;

  // InvalidArgument, naming the rank, unless there is a replica, workers and domains are numbered
  // from 0 without gaps, and workers in the order of the ranks.
  absl::Status Check() const;
  // `worker 0: rank 0 on CPU:0 in domain 0, …`
  std::string ToString() const;

  // A world of one worker: one domain for all devices, or one for each.
  static Topology OneWorker(absl::Span<const std::string> devices, bool one_domain);

  friend bool operator==(const Topology&, const Topology&) = default;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_FRAMEWORK_RUNTIME_TOPOLOGY_H_
