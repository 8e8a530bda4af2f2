// SPDX-License-Identifier: Apache-2.0
#ifndef MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_WORKER_PROCESS_H_
#define MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_WORKER_PROCESS_H_

#include <compare>
#include <cstdint>

namespace mirrorflow {

// A process that knows the secret and says which worker it is.
struct WorkerProcess {
  int worker = 0;
  uint64_t number = 0;  // random, so that no other process has it

  friend auto operator<=>(const WorkerProcess&, const WorkerProcess&) = default;
};

}  // namespace mirrorflow

#endif  // MIRRORFLOW_DISTRIBUTE_CLUSTER_COORDINATION_WORKER_PROCESS_H_
