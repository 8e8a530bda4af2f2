// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_WORKER_PROCESS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_WORKER_PROCESS_H_

#include <compare>
#include <cstdint>

namespace mirrorflow {

// The worker number of a process that only requests the cluster's status.
inline constexpr int kObserver = -1;

// A process that has completed the handshake as a worker.
struct WorkerProcess {
  int worker = 0;
  uint64_t number = 0;  // random, unique to the process

  friend auto operator<=>(const WorkerProcess&, const WorkerProcess&) = default;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_WORKER_PROCESS_H_
